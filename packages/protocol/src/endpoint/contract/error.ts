import { RequestError } from '../../base/errors.js';
import { describeIssues, type Issue, readIssues } from './issues.js';

const CODES = {
  invalid_input: 'the input is not valid',
  invalid_output: 'the handler has made an answer that is not valid',
  unknown_procedure: 'the other end has no such procedure',
  unhandled: 'the other end has no handler of this event',
} as const;

/**
 * `invalid_input`: the input was refused by its schema. `invalid_output`: the handler returned or yielded a value that
 * its schema refuses. `unknown_procedure`: this end has no procedure of that name. `unhandled`: it has no handler of an event.
 */
export type ContractErrorCode = keyof typeof CODES;

/** A request that does not keep to the contract, as its caller gets it. */
export class ContractError extends RequestError {
  declare readonly code: ContractErrorCode;
  /** The name of the procedure, or of the event. */
  readonly procedure: string;
  /** Why the input was refused: at most 16 issues, of 6 KiB together; empty for the other codes. */
  readonly issues: readonly Issue[];

  constructor(
    code: ContractErrorCode,
    procedure: string,
    {
      issues = [],
      side,
      cause,
    }: { readonly issues?: readonly Issue[]; readonly side?: 'remote'; readonly cause?: unknown } = {},
  ) {
    const reasons = issues.length === 0 ? '' : `: ${describeIssues(issues)}`;
    const data = issues.length === 0 ? undefined : { issues };
    super(code, `${procedure}: ${CODES[code]}${reasons}`, { data, side, cause });
    this.name = 'ContractError';
    this.procedure = procedure;
    this.issues = issues;
  }
}

/** The error of a call as its caller gets it. */
export function asContractError(error: unknown, procedure: string): unknown {
  if (!(error instanceof RequestError) || error.side !== 'remote' || !isCode(error.code)) return error;
  return new ContractError(error.code, procedure, { issues: issuesOf(error.data), side: 'remote' });
}

function isCode(code: string): code is ContractErrorCode {
  return Object.hasOwn(CODES, code);
}

/** The peer may have sent anything. */
function issuesOf(data: unknown): readonly Issue[] {
  try {
    return readIssues((data as { readonly issues: unknown }).issues);
  } catch {
    return [];
  }
}
