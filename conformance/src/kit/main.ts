import { Dialer, Listener } from './door.js';
import { allRequirements } from './requirements.js';
import { run, scenariosFor, type Verdict } from './run.js';

/** `npm run conformance -- --peer URL` and `--listen PORT`: the scenarios, against a peer of any implementation. */

export interface KitOptions {
  /** The URL of a server under test. */
  readonly peer?: string | undefined;
  /** The port at which a client under test finds the kit; 0 takes any. */
  readonly listen?: number | undefined;
  readonly only: readonly string[];
  readonly json: boolean;
  readonly list: boolean;
  readonly timeoutMs: number;
}

/** @returns the exit code: 0 if no scenario failed, 1 if one did, 2 if the peer cannot be reached, 3 if only the kit itself failed. */
export async function test(options: KitOptions): Promise<number> {
  const { peer, listen, only, json, list, timeoutMs } = options;
  const role = peer === undefined && listen !== undefined ? 'client' : 'server';
  const scenarios = scenariosFor(role, only);
  if (list || scenarios.length === 0) {
    for (const { name, section, title } of scenariosFor(role, list ? only : []))
      console.log(`${name.padEnd(34)} ${section}: ${title}`);
    return list ? 0 : 2;
  }
  let door: Dialer | Listener;
  try {
    if (role === 'client') {
      door = await Listener.listen(listen ?? 0, timeoutMs);
      if (!json) console.log(`waiting for a client at ${(door as Listener).url}`);
    } else {
      door = new Dialer(peer as string, timeoutMs);
      (await door.open()).cut();
    }
  } catch (error) {
    console.error((error as Error).message);
    return 2;
  }
  const verdicts = await run(door, { only, ...(!json && { onVerdict: print }) });
  await door.close();
  const count = (verdict: Verdict['verdict']) => verdicts.filter((each) => each.verdict === verdict).length;
  const [passed, failed, skipped, errors] = [
    count('passed'),
    count('failed'),
    count('skipped'),
    count('error'),
  ];
  const counts = { passed, failed, skipped, errors };
  const touched = requirementsTouched(verdicts);
  if (json) console.log(JSON.stringify({ tests: role, ...counts, ...touched, scenarios: verdicts }, null, 1));
  else {
    const ofKit = errors === 0 ? '' : `, ${errors} not tested by an error of the kit`;
    console.log(`${passed} passed, ${failed} failed, ${skipped} not applicable${ofKit}`);
    const { covered, uncovered } = touched;
    console.log(
      `requirements that this run has covered: ${covered.length} of ${covered.length + uncovered.length}`,
    );
    console.log(`not covered: ${uncovered.join(', ')}`);
  }
  return failed > 0 ? 1 : errors > 0 ? 3 : 0;
}

/** The numbers of the specification that scenarios have covered which applied, and all others. */
function requirementsTouched(verdicts: readonly Verdict[]): {
  readonly covered: readonly string[];
  readonly uncovered: readonly string[];
} {
  const touched = new Set(
    verdicts
      .filter(({ verdict }) => verdict === 'passed' || verdict === 'failed')
      .flatMap(({ requirements }) => requirements),
  );
  const all = allRequirements();
  return { covered: all.filter((id) => touched.has(id)), uncovered: all.filter((id) => !touched.has(id)) };
}

function print({ name, section, requirements, verdict, title, why, bytes }: Verdict): void {
  const numbers = requirements.length === 0 ? '' : ` [${requirements.join(', ')}]`;
  console.log(`${verdict.padEnd(7)} ${name.padEnd(34)} ${section}${numbers}`);
  if (verdict === 'skipped') console.log(`        ${why}`);
  if (verdict === 'error') console.log(`        the kit itself has failed: ${why}`);
  if (verdict === 'failed')
    console.log(`        ${title}\n        ${why}${bytes === undefined ? '' : `\n        ${bytes}`}`);
}
