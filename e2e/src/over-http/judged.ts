import { relative, sep } from 'node:path';
import type { TestReport } from '../../../scripts/run.js';
import type { NotOverHttp } from './not-over-http.js';

export interface Judgement {
  readonly passed: number;
  /** How many have failed as listed. */
  readonly expected: number;
  /** Tests that have failed and are not listed, and entries of the list that are not true. */
  readonly failures: string[];
}

/**
 * @param root folder of the paths.
 * @param list what has to fail.
 * @param files that have run; the other entries of the list are left out.
 */
export function judged(
  report: TestReport,
  root: string,
  list: readonly NotOverHttp[],
  files: readonly string[],
): Judgement {
  const failures: string[] = [];
  const met = new Set<string>();
  let passed = 0;
  let expected = 0;
  for (const { name, status: whole, message, assertionResults } of report.testResults ?? []) {
    const file = relative(root, name).split(sep).join('/');
    // It could not be loaded, or a hook of the file has failed.
    if (whole === 'failed' && !assertionResults.some(({ status }) => status === 'failed'))
      failures.push(`${file}\n${message}`);
    for (const { fullName, status, failureMessages } of assertionResults) {
      const listed = list
        .filter((entry) => file.startsWith(entry.file))
        .flatMap(({ file: at, tests }) => tests.map((test) => [`${at} > ${test}`, test] as const))
        .filter(([, test]) => fullName.startsWith(test));
      const isListed = listed.length > 0;
      if (status === 'failed') for (const [entry] of listed) met.add(entry);
      if (status === 'failed' && isListed) expected++;
      else if (status === 'failed') failures.push(`${file} > ${fullName}\n${failureMessages.join('\n')}`);
      else if (status === 'passed' && isListed)
        failures.push(`${file} > ${fullName}\npasses over HTTP, but not-over-http.ts lists it`);
      else if (status === 'passed') passed++;
    }
  }
  for (const { file, tests } of list.filter((entry) => files.some((path) => path.startsWith(entry.file))))
    for (const test of tests)
      if (!met.has(`${file} > ${test}`))
        failures.push(`${file} > ${test}\nis in not-over-http.ts, but no such test has failed over HTTP`);
  return { passed, expected, failures };
}
