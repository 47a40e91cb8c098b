import { SELF, workAsTheyAre } from '../../base/as-they-are.js';
import { called } from '../../base/callbacks.js';
import { isProtocolError, ProtocolError } from '../../base/errors.js';
import type { Message } from '../messages/message.js';
import type { Metadata } from '../messages/metadata.js';
import type { Body } from '../messages/part.js';
import { PROCEDURE } from '../messages/procedure.js';
import type { FollowedReply, FollowOptions } from '../requests/follow.js';
import type { ReplyStream } from '../requests/reply.js';
import type { RequestOptions, Session } from '../session.js';
import {
  assertContract,
  type CallInput,
  type CallOutput,
  type CallPart,
  type Contract,
  type Procedure,
  type Procedures,
} from './contract.js';
import { asContractError, ContractError } from './error.js';

/** The calling end of a contract. */

type Arguments<P extends Procedure> =
  undefined extends CallInput<P>
    ? [input?: CallInput<P>, options?: RequestOptions]
    : [input: CallInput<P>, options?: RequestOptions];

type HasParts = { readonly parts: object };
/** A procedure with parts and without an output has nothing to resolve to. */
type Callable<P> = P extends HasParts ? (P extends { readonly output: object } ? true : false) : true;
type Streamable<P> = P extends HasParts ? true : false;
type NamesOf<P extends Procedures, Kind extends { readonly [Name in keyof P]: boolean }> = {
  [Name in keyof P]: Kind[Name] extends true ? Name : never;
}[keyof P];
type CallableNames<P extends Procedures> = NamesOf<P, { [Name in keyof P]: Callable<P[Name]> }>;
type StreamableNames<P extends Procedures> = NamesOf<P, { [Name in keyof P]: Streamable<P[Name]> }>;

/** The reply of a procedure that has parts. It has one reader at a time; leaving its loop cancels the request. */
export interface ProcedureReply<Part, Output> extends AsyncIterable<Part> {
  readonly metadata: Metadata;
  /** As of `ReplyStream`. */
  readonly keptId: string | undefined;
  /** As of `ReplyStream`; an output counts as a part. */
  readonly position: number;
  /** Stops the handler, and ends the iteration. */
  cancel(): void;
  /**
   * Resolves to what the handler returned; parts that were not read are dropped. Call it after the loop, or in place of
   * one.
   *
   * @throws the errors of the iteration; {ProtocolError} `cancelled` if the loop was left.
   */
  output(): Promise<Output>;
}

/** The kept reply of a procedure; leaving its loop does not stop the handler. */
export interface FollowedProcedure<Part, Output> extends Omit<ProcedureReply<Part, Output>, 'cancel'> {
  /** As of `FollowedReply`. */
  unfollow(): void;
  /** Stops the handler. @throws {ProtocolError} as `FollowedReply.stop`. */
  stop(): Promise<void>;
}

/** The procedures of a contract as functions. */
export interface ContractClient<P extends Procedures> {
  /**
   * Each procedure but those that only yield parts. The options are those of `session.request`.
   *
   * @throws {ContractError} `invalid_input`, `invalid_output`, `unknown_procedure`; the errors of `session.request`.
   */
  readonly call: {
    readonly [Name in CallableNames<P>]: (...args: Arguments<P[Name]>) => Promise<CallOutput<P[Name]>>;
  };
  /**
   * The procedures that yield parts. The options are those of `session.stream`.
   *
   * @throws as {@link call}: from the iteration, if the request could be sent.
   */
  readonly stream: {
    readonly [Name in StreamableNames<P>]: (
      ...args: Arguments<P[Name]>
    ) => ProcedureReply<CallPart<P[Name]>, CallOutput<P[Name]>>;
  };
  /** The kept reply of a procedure that yields parts: as `session.follow`. */
  readonly follow: {
    readonly [Name in StreamableNames<P>]: (
      reply: string,
      options?: FollowOptions,
    ) => FollowedProcedure<CallPart<P[Name]>, CallOutput<P[Name]>>;
  };
}

/** The methods of a session that a contract needs. */
export type CallingSession = Pick<Session, 'request' | 'stream' | 'follow'>;

/**
 * The procedures that the other end of a session serves, or, with `to`, another client.
 *
 * @param defaults options of every call; those of a call replace them one by one.
 */
export function contractClient<P extends Procedures>(
  contract: Contract<P>,
  session: CallingSession,
  defaults: RequestOptions = {},
): ContractClient<P> {
  assertContract(contract, 'contractClient');
  type Functions = Record<string, (...args: never[]) => unknown>;
  const call: Functions = {};
  const stream: Functions = {};
  const follow: Functions = {};
  for (const [name, { output, parts }] of Object.entries<Procedure>(contract.procedures)) {
    const hasOutput = output !== undefined;
    const open = (input: unknown, options?: RequestOptions) =>
      new Reply(name, hasOutput, session.stream(bodyOf(input), named(name, { ...defaults, ...options })));
    if (parts === undefined) {
      call[name] = (input: unknown, options?: RequestOptions) =>
        called(async () => {
          const given = named(name, { ...defaults, ...options });
          try {
            return answerOf(await session.request(bodyOf(input), given), name);
          } catch (error) {
            throw asContractError(error, name);
          }
        });
      continue;
    }
    stream[name] = open;
    follow[name] = (reply: string, options?: FollowOptions) =>
      new Reply(name, hasOutput, session.follow(reply, options));
    if (hasOutput)
      call[name] = (input: unknown, options?: RequestOptions) =>
        called(async () => await open(input, options).output());
  }
  return { call, stream, follow } as unknown as ContractClient<P>;
}

/** @throws {ProtocolError} `invalid_argument` if the application names a procedure itself. */
const named = (name: string, options: RequestOptions): RequestOptions =>
  withMetadata({ [PROCEDURE]: name }, options);

/**
 * @param own metadata of a contract.
 * @throws {ProtocolError} `invalid_argument` if the application has some of the same name.
 */
export function withMetadata(own: Metadata, options: RequestOptions): RequestOptions {
  const { metadata } = options;
  for (const name of Object.keys(own)) {
    if (metadata === undefined || !Object.hasOwn(metadata, name)) continue;
    throw new ProtocolError('invalid_argument', `metadata: the name ${name} is reserved by the contract`);
  }
  return { ...options, metadata: { ...metadata, ...own } };
}

/** JSON, or nothing for `undefined`. */
export function bodyOf(input: unknown): Body {
  if (input === undefined) return '';
  if (input instanceof Uint8Array) {
    throw new ProtocolError(
      'invalid_argument',
      'the input is bytes; the values of a contract travel as JSON',
    );
  }
  return { json: input };
}

/** @throws {ProtocolError} `bad_json`, and the errors of `message.text`. */
export function jsonOf(message: Message): unknown {
  return message.text === '' ? undefined : message.json();
}

/** @throws {ContractError} `unknown_procedure` if the answer is not one of a contract. */
function answerOf(message: Message, name: string): unknown {
  try {
    return jsonOf(message);
  } catch (error) {
    const isOther = isProtocolError(error) && (error.code === 'bad_json' || error.code === 'bad_utf8');
    throw isOther ? unserved(name, error) : error;
  }
}

/** The other end answers with something else than JSON, so it knows nothing of the contract. */
function unserved(name: string, cause: unknown): ContractError {
  return new ContractError('unknown_procedure', name, { side: 'remote', cause });
}

class Reply implements Omit<ProcedureReply<unknown, unknown>, 'cancel'> {
  readonly [SELF] = this;
  readonly #name: string;
  readonly #hasOutput: boolean;
  readonly #reply: ReplyStream | FollowedReply;
  /** The handler has returned. */
  #returned: { readonly output: unknown } | undefined;
  #isLeft = false;
  /** The loop has ended. */
  #isOver = false;
  #failure: { readonly error: unknown } | undefined;

  constructor(name: string, hasOutput: boolean, reply: ReplyStream | FollowedReply) {
    this.#name = name;
    this.#hasOutput = hasOutput;
    this.#reply = reply;
    const leaving = (leave: () => void) => () => {
      this.#isLeft = true;
      leave();
    };
    const isFollowed = 'unfollow' in reply;
    if (!isFollowed) Object.assign(this, { cancel: leaving(() => reply.cancel()) });
    else Object.assign(this, { stop: () => reply.stop(), unfollow: leaving(() => reply.unfollow()) });
  }

  get metadata(): Metadata {
    return this.#reply.metadata;
  }
  get keptId(): string | undefined {
    return this.#reply.keptId;
  }
  get position(): number {
    return this.#reply.position;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<unknown, void> {
    const parts = this.#reply[Symbol.asyncIterator]();
    try {
      for await (const part of { [Symbol.asyncIterator]: () => parts }) {
        const value = answerOf(part, this.#name);
        if (!this.#hasOutput) yield value;
        else if (typeof value !== 'object') throw unserved(this.#name, undefined);
        else if (isPart(value)) yield value.part;
        else this.#returned = { output: isOutput(value) ? value.output : undefined };
      }
      this.#isOver = true;
      if (!this.#hasOutput && !this.#isLeft) this.#returned = { output: undefined };
    } catch (error) {
      this.#isOver = true;
      this.#failure = { error: asContractError(error, this.#name) };
      throw this.#failure.error;
    } finally {
      if (!this.#isOver) this.#isLeft = true;
    }
  }

  output(): Promise<unknown> {
    return called(() => this.#output());
  }

  async #output(): Promise<unknown> {
    if (this.#returned === undefined && !this.#isOver && !this.#isLeft) for await (const _ of this);
    if (this.#returned !== undefined) return this.#returned.output;
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#isLeft)
      throw new ProtocolError('cancelled', `${this.#name}: its reply was not read to the end`);
    throw new ProtocolError('bad_message', `${this.#name}: the reply has ended without its output`);
  }
}

const isPart = (value: unknown): value is { readonly part: unknown } =>
  typeof value === 'object' && value !== null && 'part' in value;
const isOutput = (value: unknown): value is { readonly output: unknown } =>
  typeof value === 'object' && value !== null && 'output' in value;

workAsTheyAre(Reply);
