import type { Case } from './family.js';
import { type Pass, resultKey } from './passes.js';
import type { VectorFile } from './vectors.js';

/** The result of a file on all platforms together; a case passes if it passes on each. */
export interface FileReport {
  readonly file: string;
  readonly passed: number;
  readonly failed: number;
  readonly informative: number;
  /** Lines about failures, and about informative cases. */
  readonly details: readonly string[];
}

export function reportOf({ family, cases }: VectorFile, passes: readonly Pass[]): FileReport {
  let passed = 0;
  let failed = 0;
  const details: string[] = [];
  const notRun = new Map<string, string[]>();
  const informative = new Map<string, { cases: number; agreeing: number }>();
  for (const one of cases) {
    const failures = failuresOf(family.file, one, passes);
    const undone = passes.filter(({ results }) => !results.has(resultKey(family.file, one.key)));
    for (const { platform } of undone) notRun.set(platform, [...(notRun.get(platform) ?? []), one.key]);
    if (failures.length > 0 || undone.length > 0) {
      failed++;
      details.push(...failures);
    } else if (one.informative) {
      const known = informative.get(one.section) ?? { cases: 0, agreeing: 0 };
      known.cases++;
      if (agrees(family.file, one, passes)) known.agreeing++;
      informative.set(one.section, known);
    } else passed++;
  }
  for (const [platform, keys] of notRun) details.push(lineOfUndone(family.file, keys, platform, passes));
  for (const [section, { cases, agreeing }] of informative) {
    details.push(`  informative: ${section}, ${cases} cases, ${agreeing} of them as the reference has them`);
  }
  const outside = [...informative.values()].reduce((sum, { cases }) => sum + cases, 0);
  return { file: family.file, passed, failed, informative: outside, details };
}

/** One line per reason, with the platforms that it applies to. */
function failuresOf(file: string, { key, name }: Case, passes: readonly Pass[]): string[] {
  const reasons = new Map<string, string[]>();
  for (const { platform, results } of passes) {
    const result = results.get(resultKey(file, key));
    if (result?.status !== 'failed') continue;
    reasons.set(result.why, [...(reasons.get(result.why) ?? []), platform]);
  }
  const title = name === '' ? key : `${key} ${name}`;
  return [...reasons].map(
    ([why, platforms]) => `  FAILED ${file} ${title} (${platforms.join(', ')}): ${why}`,
  );
}

/** Cases that a pass never reached are reported as one failure. */
function lineOfUndone(
  file: string,
  keys: readonly string[],
  platform: string,
  passes: readonly Pass[],
): string {
  const failure = passes.find((pass) => pass.platform === platform)?.failure ?? 'the pass left them out';
  const range = keys.length === 1 ? keys[0] : `${keys[0]} to ${keys.at(-1)}, ${keys.length} cases`;
  return `  FAILED ${file} ${range} (${platform}): not run: ${failure}`;
}

function agrees(file: string, { key }: Case, passes: readonly Pass[]): boolean {
  return passes.every(({ results }) => {
    const result = results.get(resultKey(file, key));
    return result?.status === 'informative' && result.agrees;
  });
}

/** The summary of a file in one line. */
export function lineOf({ file, passed, failed, informative }: FileReport): string {
  return `${file.padEnd(20)} ${passed} passed, ${failed} failed, ${informative} informative`;
}
