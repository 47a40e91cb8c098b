import { ProtocolError } from '../../base/errors.js';
import { assertObject, assertOptions, unknownName } from '../../base/options.js';
import { truncateUnits } from '../../base/text.js';
import { withPathsOf } from '../http/paths.js';
import type { Message } from '../messages/message.js';
import { isAsyncIterable, type Part } from '../messages/part.js';
import { PROCEDURE, take } from '../messages/procedure.js';
import { refuse } from '../messages/undecodable.js';
import type { RequestContext } from '../requests/handler-context.js';
import type { RequestHandler } from '../requests/responder.js';
import type { Session } from '../session.js';
import { jsonOf } from './client.js';
import { assertContract, type Contract, type Handlers, type Procedure, type Procedures } from './contract.js';
import { ContractError } from './error.js';
import { describeIssues } from './issues.js';
import { check, type Schema } from './schema.js';

/** The answering end of a contract. */

export interface ServeOptions<Of extends Session = Session> {
  /**
   * Answers requests that name no procedure of the contract: another `serve`, for example.
   *
   * @default they fail with `unknown_procedure`
   */
  readonly otherwise?: RequestHandler<Of> | undefined;
  /**
   * Whether outputs and parts are checked before they are sent. Without, they are sent as the handler made them.
   *
   * @default true
   */
  readonly validateReplies?: boolean | undefined;
}

type AnyHandler = (input: unknown, context: RequestContext, request: Message) => unknown;

/**
 * A request handler that answers the procedures of a contract, for `onRequest` of either end. An input that its schema
 * refuses is answered with `invalid_input`, and never reaches a handler.
 *
 * @throws {ProtocolError} `invalid_option` if a handler is missing or its procedure unknown; `invalid_argument` without a contract.
 */
export function serve<P extends Procedures, Of extends Session = Session>(
  contract: Contract<P>,
  handlers: Handlers<NoInfer<P>, NoInfer<Of>>,
  options: ServeOptions<NoInfer<Of>> = {},
): RequestHandler<Of> {
  assertOptions(options, { otherwise: 'function', validateReplies: 'flag' }, 'serve');
  const { otherwise, validateReplies = true } = options;
  assertContract(contract, 'serve');
  assertObject(handlers, 'serve: handlers');
  const answers = new Map<string, RequestHandler<Of>>();
  for (const [name, procedure] of Object.entries<Procedure>(contract.procedures)) {
    const handler: unknown = Object.hasOwn(handlers, name) ? handlers[name] : undefined;
    if (typeof handler !== 'function') {
      throw new ProtocolError('invalid_option', `serve: the procedure "${name}" has no handler`);
    }
    const checked: Procedure = validateReplies
      ? procedure
      : { ...procedure, output: undefined, parts: undefined };
    const answer = procedure.parts === undefined ? answerOnce : answerInParts;
    const hasOutput = procedure.output !== undefined;
    answers.set(name, (request, context) =>
      answer({ name, schemas: checked, hasOutput, handler: handler as AnyHandler, request, context }),
    );
  }
  for (const name of Object.keys(handlers)) {
    if (!answers.has(name)) throw unknownName('procedure', name, [...answers.keys()], 'serve');
  }
  const handler: RequestHandler<Of> = (request, context) => {
    take(request);
    const name = context.metadata[PROCEDURE];
    const answer = typeof name === 'string' ? answers.get(name) : undefined;
    if (answer !== undefined) return answer(request, context);
    if (otherwise !== undefined) return otherwise(request, context);
    const asked = typeof name === 'string' ? truncateUnits(name, 64) : 'a request without a name';
    throw refuse(new ContractError('unknown_procedure', asked));
  };
  return withPathsOf(handler, otherwise);
}

interface Call {
  readonly name: string;
  readonly schemas: Procedure;
  readonly hasOutput: boolean;
  readonly handler: AnyHandler;
  readonly request: Message;
  readonly context: RequestContext;
}

async function answerOnce(call: Call): Promise<Part> {
  const { handler, request, context, schemas } = call;
  const input = await inputOf(call);
  const output = await handler(input, context, request);
  const checked = await checkReply(call, schemas.output, output, 'output');
  // The parts of a procedure without an output, and `undefined`, have no JSON form.
  return call.hasOutput && checked !== undefined ? { json: checked } : '';
}

async function* answerInParts(call: Call): AsyncGenerator<Part> {
  const { name, handler, request, context, schemas, hasOutput } = call;
  const reply = handler(await inputOf(call), context, request);
  if (!isAsyncIterable(reply)) {
    throw new ProtocolError('invalid_argument', `${name}: its handler has to be an async generator`);
  }
  const iterator = reply[Symbol.asyncIterator]();
  let isDone = false;
  try {
    for (;;) {
      const next = await iterator.next();
      if (next.done) {
        isDone = true;
        if (!hasOutput) return;
        yield { json: { output: await checkReply(call, schemas.output, next.value, 'output') } };
        return;
      }
      const part = await checkReply(call, schemas.parts, next.value, 'part');
      yield { json: hasOutput ? { part } : part };
    }
  } finally {
    if (!isDone) await iterator.return?.();
  }
}

/** @throws {ContractError} `invalid_input`. */
async function inputOf({ name, schemas, request, context }: Call): Promise<unknown> {
  const value = jsonOf(request);
  if (schemas.input === undefined) return undefined;
  const checked = await check(schemas.input, value, context.signal, `${name}: the schema of its input`);
  if (checked.issues === undefined) return checked.value;
  throw refuse(new ContractError('invalid_input', name, { issues: checked.issues }));
}

/** @throws {ContractError} `invalid_output`. Its cause has the issues, which may quote values: neither the peer nor a log gets them. */
async function checkReply(
  { name, context }: Call,
  schema: Schema | undefined,
  value: unknown,
  what: 'output' | 'part',
): Promise<unknown> {
  if (schema === undefined) return value;
  const checked = await check(schema, value, context.signal, `${name}: the schema of its ${what}`);
  if (checked.issues === undefined) return checked.value;
  throw new ContractError('invalid_output', name, {
    cause: new Error(`${name}: the schema of its ${what} says: ${describeIssues(checked.issues)}`),
  });
}
