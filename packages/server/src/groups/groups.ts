import { type Body, type CodedBody, ProtocolError } from '@parlance/protocol';
import {
  assertOptions,
  type BodyCoder,
  contentOf,
  encodeContent,
  endpointOf,
  isBlob,
  type OptionKinds,
  readBlob,
  toProtocolError,
} from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../endpoint.js';
import { ServedSession, type ServerSession } from '../served-session.js';
import { enqueue } from './enqueue.js';
import type { Group, GroupSendOptions, GroupSent } from './group.js';
import { SharedCoders } from './shared-coders.js';

/** UTF-16 units of the name of a group. */
export const MAX_NAME = 256;

const KINDS: OptionKinds<GroupSendOptions> = { algorithm: 'text', secret: 'flag', except: 'object' };
const NONE: GroupSendOptions = Object.freeze({});

type Members = ReadonlySet<ServerEndpoint>;
const NO_MEMBERS: Members = new Set();

/** The groups of a server. One without members takes no memory. */
export class Groups {
  readonly #find: (sessionId: string) => ServerEndpoint | undefined;
  readonly #members = new Map<string, Set<ServerEndpoint>>();
  readonly #names = new Map<ServerEndpoint, Set<string>>();
  readonly coders = new SharedCoders();

  /** Bytes of a message. */
  readonly maxMessageSize: number;

  /** @param find a session that has not ended. */
  constructor(find: (sessionId: string) => ServerEndpoint | undefined, maxMessageSize: number) {
    this.#find = find;
    this.maxMessageSize = maxMessageSize;
  }

  /** @throws {ProtocolError} `invalid_argument`. */
  named(name: string): Group {
    if (typeof name === 'string' && name !== '' && name.length <= MAX_NAME) return new NamedGroup(this, name);
    throw new ProtocolError('invalid_argument', `group: a name of 1 to ${MAX_NAME} characters is expected`);
  }

  membersOf(name: string): Members {
    return this.#members.get(name) ?? NO_MEMBERS;
  }

  add(name: string, session: ServerEndpoint): boolean {
    if (this.#find(session.id) !== session) return false;
    setIn(this.#members, name).add(session);
    setIn(this.#names, session).add(name);
    return true;
  }

  delete(name: string, session: ServerEndpoint): boolean {
    deleteIn(this.#names, session, name);
    return deleteIn(this.#members, name, session);
  }

  /** The session is over, or goes on elsewhere. */
  forget(session: ServerEndpoint): void {
    for (const name of [...(this.#names.get(session) ?? [])]) this.delete(name, session);
  }
}

class NamedGroup implements Group {
  readonly name: string;
  readonly #groups: Groups;

  constructor(groups: Groups, name: string) {
    this.#groups = groups;
    this.name = name;
  }

  get #members(): Members {
    return this.#groups.membersOf(this.name);
  }

  get size(): number {
    return this.#members.size;
  }

  has(session: ServerSession): boolean {
    return this.#members.has(served(session));
  }

  add(session: ServerSession): boolean {
    return this.#groups.add(this.name, served(session));
  }

  delete(session: ServerSession): boolean {
    return this.#groups.delete(this.name, served(session));
  }

  *[Symbol.iterator](): IterableIterator<ServerSession> {
    for (const { session } of this.#members) yield session;
  }

  async send(body: Body, options: GroupSendOptions = NONE): Promise<GroupSent> {
    assertOptions(options, KINDS);
    const except = options.except && served(options.except);
    const given = contentOf(body);
    const content = isBlob(given) ? await readBlob(given, this.#groups.maxMessageSize) : given;
    const coding = new SharedCoding(this.#groups.coders, content, options);
    const refused: { session: ServerSession; error: ProtocolError }[] = [];
    const later: Promise<void>[] = [];
    let queued = 0;
    for (const member of this.#members) {
      if (member === except) continue;
      queued++;
      const refuse = (error: unknown): void => {
        queued--;
        const reason = toProtocolError(error, 'internal', 'the message could not be queued');
        refused.push({ session: member.session, error: reason });
      };
      try {
        const waiting = enqueue(member, () => coding.for(member));
        if (waiting !== undefined) later.push(waiting.catch(refuse));
      } catch (error) {
        refuse(error);
      }
    }
    await Promise.all(later);
    return { queued, coded: coding.count, refused };
  }
}

/** One message, coded once for all members that can read the same bytes. */
class SharedCoding {
  readonly #coders: SharedCoders;
  readonly #content: Parameters<typeof encodeContent>[0];
  readonly #options: GroupSendOptions;
  readonly #coded = new Map<BodyCoder, CodedBody | Promise<CodedBody>>();
  count = 0;

  constructor(coders: SharedCoders, content: Parameters<typeof encodeContent>[0], options: GroupSendOptions) {
    this.#coders = coders;
    this.#content = content;
    this.#options = options;
  }

  /** @throws {ProtocolError} as `BodyCoder.encode`. */
  for(member: ServerEndpoint): CodedBody | Promise<CodedBody> {
    const { algorithm, secret } = this.#options;
    // Context differs from member to member.
    const isOwn = algorithm === 'CONTEXT';
    const coder = isOwn ? member.coder : this.#coders.for(member);
    let coded = this.#coded.get(coder);
    if (coded === undefined) {
      this.count++;
      coded = encodeContent(this.#content, coder, { algorithm, secret });
      if (!isOwn) this.#coded.set(coder, coded);
    }
    return coded;
  }
}

/** @throws {ProtocolError} `invalid_argument`. */
function served(session: ServerSession): ServerEndpoint {
  if (session instanceof ServedSession) return endpointOf(session) as ServerEndpoint;
  throw new ProtocolError('invalid_argument', 'group: a session of a server is expected');
}

function setIn<Key, Value>(sets: Map<Key, Set<Value>>, key: Key): Set<Value> {
  const set = sets.get(key) ?? new Set();
  sets.set(key, set);
  return set;
}

/** Forgets sets that are empty. */
function deleteIn<Key, Value>(sets: Map<Key, Set<Value>>, key: Key, value: Value): boolean {
  const set = sets.get(key);
  if (set?.delete(value) !== true) return false;
  if (set.size === 0) sets.delete(key);
  return true;
}
