import { isEncodingAvailable, loadCodecs, loadEncoding } from '../subject.js';
import { Deviation, hex, NotApplicable } from './deviation.js';
import type { Door } from './door.js';
import { Kit } from './kit.js';
import { requirementsOf } from './requirements.js';
import type { Scenario } from './scenario.js';
import { SCENARIOS } from './scenarios/index.js';

/** Runs scenarios against a peer, one after the other. */

export interface Verdict {
  readonly name: string;
  readonly section: string;
  readonly title: string;
  /** The numbers of the specification that it covers. */
  readonly requirements: readonly string[];
  readonly verdict: 'passed' | 'failed' | 'skipped';
  /** The first deviation, or why the scenario does not apply. */
  readonly why?: string;
  /** The bytes of the deviation, in hexadecimal. */
  readonly bytes?: string;
  readonly ms: number;
}

export interface RunOptions {
  /** Only scenarios whose names begin with one of these. @default all */
  readonly only?: readonly string[];
  readonly onVerdict?: (verdict: Verdict) => void;
}

/** The most time of one scenario, in timeouts of one step. */
const MOST_STEPS = 12;

export const scenariosFor = (peer: Door['peer'], only: readonly string[] = []): readonly Scenario[] =>
  SCENARIOS.filter(
    ({ tests, name }) =>
      (tests === undefined || tests === peer) &&
      (only.length === 0 || only.some((start) => name.startsWith(start))),
  );

export async function run(door: Door, options: RunOptions = {}): Promise<readonly Verdict[]> {
  await loadCodecs(['AVP', 'BROTLI', 'CONTEXT', 'M2M']);
  const encoding = (await isEncodingAvailable('CL100K_BASE')) ? await loadEncoding('CL100K_BASE') : undefined;
  const verdicts: Verdict[] = [];
  for (const scenario of scenariosFor(door.peer, options.only)) {
    const verdict = await verdictOn(scenario, new Kit(door, encoding), door.timeoutMs * MOST_STEPS);
    verdicts.push(verdict);
    options.onVerdict?.(verdict);
  }
  return verdicts;
}

async function verdictOn(scenario: Scenario, kit: Kit, timeoutMs: number): Promise<Verdict> {
  const start = Date.now();
  const { name, section, title } = scenario;
  const outcome = await outcomeOf(scenario, kit, timeoutMs);
  await kit.dispose();
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
    if (!(error instanceof Deviation)) throw error;
    const { message, bytes } = error;
    return { verdict: 'failed', why: message, ...(bytes !== undefined && { bytes: hex(bytes) }) };
  } finally {
    clearTimeout(timer);
  }
}
