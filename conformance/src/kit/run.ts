import { type Encoding, isEncodingAvailable, loadCodecs, loadEncoding } from '../subject.js';
import { packed } from './bodies.js';
import { Deviation, hex, NotApplicable } from './deviation.js';
import type { Door } from './door.js';
import { Kind } from './frames.js';
import { Kit } from './kit.js';
import { requirementsOf } from './requirements.js';
import type { Scenario } from './scenario.js';
import { SCENARIOS } from './scenarios/index.js';
import { NO_TEST, NONE_PROBED, type UnknownTest, unknownFrom } from './unknown.js';

/** Runs scenarios against a peer, one after the other. */

export interface Verdict {
  readonly name: string;
  readonly section: string;
  readonly title: string;
  /** The numbers of the specification that it covers. */
  readonly requirements: readonly string[];
  /** `error` is one of the kit itself: nothing is known about the peer. */
  readonly verdict: 'passed' | 'failed' | 'skipped' | 'error';
  /** The first deviation, why the scenario does not apply, or what happened in the kit. */
  readonly why?: string;
  /** The bytes of the deviation, in hexadecimal. */
  readonly bytes?: string;
  readonly ms: number;
}

export interface RunOptions {
  /** Only scenarios whose names begin with one of these. @default all */
  readonly only?: readonly string[];
  readonly onVerdict?: (verdict: Verdict) => void;
  /** @default all */
  readonly scenarios?: readonly Scenario[];
}

/** The most time of one scenario, in timeouts of one step. */
const MOST_STEPS = 12;

export const scenariosFor = (
  peer: Door['peer'],
  only: readonly string[] = [],
  scenarios = SCENARIOS,
): readonly Scenario[] =>
  scenarios.filter(
    ({ tests, name }) =>
      (tests === undefined || tests === peer) &&
      (only.length === 0 || only.some((start) => name.startsWith(start))),
  );

export async function run(door: Door, options: RunOptions = {}): Promise<readonly Verdict[]> {
  await loadCodecs(['AVP', 'BROTLI', 'CONTEXT', 'M2M']);
  const encoding = (await isEncodingAvailable('CL100K_BASE')) ? await loadEncoding('CL100K_BASE') : undefined;
  const verdicts: Verdict[] = [];
  const unknown = await unknownTo(door, encoding);
  for (const scenario of scenariosFor(door.peer, options.only, options.scenarios)) {
    const verdict = await verdictOn(scenario, new Kit(door, encoding, unknown), door.timeoutMs * MOST_STEPS);
    verdicts.push(verdict);
    options.onVerdict?.(verdict);
  }
  return verdicts;
}

/** How the peer answers an unknown test. A peer that gives no answer shows in the scenarios. */
async function unknownTo(door: Door, encoding: Encoding | undefined): Promise<UnknownTest> {
  const kit = new Kit(door, encoding);
  try {
    const session = await kit.session();
    const call = session.link.openStream();
    await session.link.writeBody(Kind.REQUEST, call.id, { bytes: '', metadata: packed({ test: NO_TEST }) });
    return unknownFrom(await session.over(call));
  } catch {
    return NONE_PROBED;
  } finally {
    await kit.dispose().catch(() => {});
  }
}

async function verdictOn(scenario: Scenario, kit: Kit, timeoutMs: number): Promise<Verdict> {
  const start = Date.now();
  const { name, section, title } = scenario;
  const outcome = await outcomeOf(scenario, kit, timeoutMs);
  // A failure here is no part of the scenario.
  await kit.dispose().catch(() => {});
  return { name, section, title, requirements: requirementsOf(name), ...outcome, ms: Date.now() - start };
}

async function outcomeOf(
  scenario: Scenario,
  kit: Kit,
  timeoutMs: number,
): Promise<Pick<Verdict, 'verdict' | 'why' | 'bytes'>> {
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Deviation(`not done after ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    await Promise.race([scenario.run(kit), tooLong]);
    return { verdict: 'passed' };
  } catch (error) {
    if (error instanceof NotApplicable) return { verdict: 'skipped', why: error.message };
    if (!(error instanceof Deviation)) return { verdict: 'error', why: inWords(error) };
    const { message, bytes } = error;
    return { verdict: 'failed', why: message, ...(bytes !== undefined && { bytes: hex(bytes) }) };
  } finally {
    clearTimeout(timer);
  }
}

/** An exception of the kit, and where it was thrown. */
function inWords(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const place = error.stack?.split('\n').find((line) => /^\s+at /.test(line)) ?? '';
  return `${error.name}: ${error.message} ${place.trim()}`.trim();
}
