import { truncateUnits, utf8Length } from '../../base/text.js';

/** One reason why a schema refuses a value. */
export interface Issue {
  /** The text of the schema library, of up to 256 UTF-16 units. */
  readonly message: string;
  /** The keys that lead to the refused value, at most 16; empty for the value itself. */
  readonly path: readonly (string | number)[];
}

const MAX_ISSUES = 16;
const MAX_PATH = 16;
/** UTF-16 units. */
const MAX_ISSUE_TEXT = 256;
const MAX_KEY = 64;
/** Bytes of all issues as JSON; the data of a `RequestError` may have 8 KiB. */
const MAX_ISSUES_SIZE = 6 * 1024;

/**
 * The first issues of a list that a schema library or a peer has made, within the bounds above.
 *
 * @throws any error if it is not a list of issues.
 */
export function readIssues(given: unknown): readonly Issue[] {
  const list = given as readonly { readonly message: unknown; readonly path?: unknown }[];
  const issues: Issue[] = [];
  const count = Math.min(list.length, MAX_ISSUES);
  let size = 2;
  for (let i = 0; i < count; i++) {
    const { message, path } = list[i] as (typeof list)[number];
    const issue = { message: truncateUnits(String(message), MAX_ISSUE_TEXT), path: readPath(path) };
    size += utf8Length(JSON.stringify(issue)) + 1;
    if (size > MAX_ISSUES_SIZE) break;
    issues.push(issue);
  }
  return issues;
}

function readPath(given: unknown): (string | number)[] {
  if (given === undefined || given === null) return [];
  const list = given as readonly unknown[];
  const path: (string | number)[] = [];
  const count = Math.min(list.length, MAX_PATH);
  for (let i = 0; i < count; i++) path.push(readKey(list[i]));
  return path;
}

/** A key, or an object that has one. */
function readKey(given: unknown): string | number {
  const key = typeof given === 'object' && given !== null && 'key' in given ? given.key : given;
  return typeof key === 'number' ? key : truncateUnits(String(key), MAX_KEY);
}

/** The issues as one line of text, for a message. */
export function describeIssues(issues: readonly Issue[]): string {
  return issues
    .map(({ message, path }) => (path.length === 0 ? message : `${path.join('.')}: ${message}`))
    .join('; ');
}
