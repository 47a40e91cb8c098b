import { Mismatch } from './expect.js';
import { Fields, isRecord } from './fields.js';

/**
 * A family is all that the runner knows about the files of one name: their sections, and how to check a case
 * of each. Everything else is in the data; no case is known by its name.
 */
export interface Family {
  readonly file: string;
  /** Top-level fields that describe the file and hold no cases. */
  readonly head: readonly string[];
  readonly sections: readonly Section[];
  /** Loads what the cases need; the time counts for none of them. */
  prepare?(): Promise<void>;
}

export interface Section {
  /** Name of a section, or a pattern of names. */
  readonly name: string | RegExp;
  /**
   * The expectations belong to another implementation and need not be met: the result is reported and does
   * not count, except for crashes and hangs.
   */
  readonly informative?: true;
  check(given: Fields): void;
}

export interface Case {
  /** Unique in its file, for example `decode[3]`. */
  readonly key: string;
  readonly section: string;
  /** The case's own name, if it has one. */
  readonly name: string;
  readonly informative: boolean;
  readonly run: () => void;
}

export type Result =
  | { readonly status: 'passed' }
  | { readonly status: 'failed'; readonly why: string }
  /** Does not count. */
  | { readonly status: 'informative'; readonly agrees: boolean };

/** Seconds of computation after which a case fails, even with the right result. */
const MAX_SECONDS = 2;

/** All cases of a file. Content that the family does not know becomes a case that fails. */
export function casesOf(family: Family, document: unknown): Case[] {
  if (!isRecord(document)) return [broken('file', 'the file is not a JSON object')];
  const cases: Case[] = [];
  for (const [name, value] of Object.entries(document)) {
    if (family.head.includes(name)) continue;
    const section = family.sections.find((known) =>
      typeof known.name === 'string' ? known.name === name : known.name.test(name),
    );
    if (section === undefined && isProse(value)) continue;
    const entries = Array.isArray(value)
      ? value.map((entry, i) => [`${name}[${i}]`, entry])
      : [[name, value]];
    for (const [key, entry] of entries as [string, unknown][]) {
      if (section === undefined) cases.push(broken(key, `the runner does not know the section ${name}`));
      else if (!isRecord(entry)) cases.push(broken(key, 'the case is not an object'));
      else cases.push(caseOf(section, key, name, new Fields(entry)));
    }
  }
  const stated = document['count'];
  const counted = document['cases'];
  if (typeof stated === 'number' && Array.isArray(counted) && stated !== counted.length) {
    cases.push(broken('count', `the file states ${stated} cases and holds ${counted.length}`));
  }
  return cases;
}

/**
 * Runs one case and measures it.
 *
 * @param measure starts a stopwatch and returns a function for the elapsed seconds.
 */
export function runCase({ run, informative }: Case, measure = stopwatch): Result {
  const elapsed = measure();
  let mismatch: unknown;
  try {
    run();
  } catch (error) {
    mismatch = error;
  }
  const seconds = elapsed();
  if (seconds > MAX_SECONDS) {
    return {
      status: 'failed',
      why: `took ${seconds.toFixed(1)} s, at most ${MAX_SECONDS} s are allowed`,
    };
  }
  if (mismatch !== undefined && !(mismatch instanceof Mismatch)) {
    const shown = mismatch instanceof Error ? (mismatch.stack ?? String(mismatch)) : String(mismatch);
    return { status: 'failed', why: `the case could not run: ${shown}` };
  }
  const crashed = mismatch instanceof Mismatch && mismatch.cause !== undefined;
  if (informative && !crashed) return { status: 'informative', agrees: mismatch === undefined };
  return mismatch === undefined ? { status: 'passed' } : { status: 'failed', why: mismatch.message };
}

/**
 * The smaller of elapsed time and processor time: a busy machine stretches the former, helper threads the
 * latter.
 */
function stopwatch(): () => number {
  const start = performance.now();
  const startCpu = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(startCpu);
    return Math.min(performance.now() - start, (user + system) / 1000) / 1000;
  };
}

function caseOf(section: Section, key: string, sectionName: string, given: Fields): Case {
  const name = given.raw('name');
  return {
    key,
    section: sectionName,
    name: typeof name === 'string' ? name : '',
    informative: section.informative ?? false,
    run: () => section.check(given),
  };
}

function broken(key: string, why: string): Case {
  const run = () => {
    throw new Mismatch(why);
  };
  return { key, section: key, name: '', informative: false, run };
}

/** Text, numbers, and lists of text: nothing that could be a case. */
function isProse(value: unknown): boolean {
  if (Array.isArray(value)) return value.every((entry) => typeof entry === 'string');
  return typeof value !== 'object' || value === null;
}
