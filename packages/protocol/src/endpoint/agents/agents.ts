import { SELF, workAsTheyAre } from '../../base/as-they-are.js';
import { called } from '../../base/callbacks.js';
import { Algorithm, EncodingName } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { type Fields, get, isFields, namesField, objectField } from '../../base/fields.js';
import { showAs } from '../../base/shown.js';
import { encodeAvpHello, introducedModel } from '../../codec/avp/hello.js';
import type { ModelIdentity } from '../../codec/avp/identity.js';
import type { Compatibility } from '../../codec/avp/resolve.js';
import type { Message } from '../messages/message.js';
import type { Metadata } from '../messages/metadata.js';
import type { Body } from '../messages/part.js';
import type { ReplyStream } from '../requests/reply.js';

/**
 * The directory of agents as a session sees it. A request to `@directory` is answered with a stream of JSON:
 * first the present agents, then, if requested, the changes.
 */

/** Another agent of the server. */
export interface AgentInfo {
  /**
   * The ID of the agent. Agents of another principal do not disclose theirs; for them, it is {@link address}.
   */
  readonly id: string;
  /** For `to`, and in `from` of the agent's messages. It does not change while the server runs. */
  readonly address: string;
  /** `suspended`: its connection is lost, and messages to it wait until it resumes its session. */
  readonly state: 'connected' | 'suspended';
  /** The algorithms that its session agreed on. */
  readonly algorithms: readonly Algorithm[];
  /** The encoding that its session agreed on; empty if none. */
  readonly encodings: readonly EncodingName[];
  /** Its own description: `ClientOptions.agent.metadata`. */
  readonly metadata: Metadata;
  /** The model that it says it runs. */
  readonly identity: ModelIdentity | undefined;
  /** How AVP's resolver lets the agent of this session send tensors to that agent. */
  readonly compatibility: Compatibility;
}

export type AgentChange =
  | { readonly type: 'joined' | 'suspended' | 'changed'; readonly agent: AgentInfo }
  /** `agent` as it was before it left. */
  | { readonly type: 'left'; readonly agent: AgentInfo };

/** The agents that a session may see. Iterate over it to watch their changes. */
export interface Agents extends AsyncIterable<AgentChange> {
  /** The agents at the time of the request; up to date only while an iteration runs. */
  readonly list: readonly AgentInfo[];
  get(id: string): AgentInfo | undefined;
}

declare module '../session.js' {
  interface Session {
    /**
     * Client: lists the agents of the server that this session may see, and watches their changes.
     *
     * @throws {ProtocolError} `unsupported` if the server has no directory of agents.
     */
    agents(): Promise<Agents>;
  }
}

/** A request to the directory. */
export interface DirectoryQuery {
  /** The changes follow after the present agents. */
  readonly watch: boolean;
}

/**
 * One part of an answer. While `isComplete` is false, more parts of the list of present agents follow. Only
 * the latest state of an agent is sent.
 */
export interface DirectoryChanges {
  readonly present: readonly AgentInfo[];
  readonly gone: readonly string[];
  readonly isComplete: boolean;
}

export async function askForAgents(ask: (query: Body) => ReplyStream): Promise<Agents> {
  const view = new AgentsView(ask);
  await view.refresh();
  return view;
}

class AgentsView implements Agents {
  readonly [SELF] = this;
  readonly #ask: (query: Body) => ReplyStream;
  #agents = new Map<string, AgentInfo>();

  constructor(ask: (query: Body) => ReplyStream) {
    this.#ask = ask;
  }

  get list(): readonly AgentInfo[] {
    return [...this.#agents.values()];
  }

  get(id: string): AgentInfo | undefined {
    return this.#agents.get(id);
  }

  refresh(): Promise<void> {
    return called(() => this.#refresh());
  }

  async #refresh(): Promise<void> {
    const agents = new Map<string, AgentInfo>();
    for await (const part of this.#ask({ watch: false } satisfies DirectoryQuery)) {
      for (const agent of decodeChanges(part).present) agents.set(agent.id, agent);
    }
    this.#agents = agents;
  }

  [Symbol.asyncIterator](): AsyncIterator<AgentChange> {
    let reply: ReplyStream | undefined;
    const changes = this.#watch(() => {
      reply = this.#ask({ watch: true } satisfies DirectoryQuery);
      return reply;
    });
    return {
      next: () => changes.next(),
      // A generator that waits for a change would end with that change.
      return: () => {
        reply?.cancel();
        return changes.return(undefined);
      },
    };
  }

  async *#watch(ask: () => ReplyStream): AsyncGenerator<AgentChange, undefined> {
    /** The agents of the first list; the other known agents have left since. */
    let seen: Set<string> | undefined = new Set();
    for await (const part of ask()) {
      const { present, gone, isComplete } = decodeChanges(part);
      for (const agent of present) {
        seen?.add(agent.id);
        const type = changeOf(this.#agents.get(agent.id), agent);
        this.#agents.set(agent.id, agent);
        if (type !== undefined) yield { type, agent };
      }
      const missing = seen !== undefined && isComplete ? this.#except(seen) : [];
      if (isComplete) seen = undefined;
      for (const id of [...gone, ...missing]) {
        const agent = this.#agents.get(id);
        this.#agents.delete(id);
        if (agent !== undefined) yield { type: 'left', agent };
      }
    }
  }

  #except(seen: ReadonlySet<string>): string[] {
    return [...this.#agents.keys()].filter((id) => !seen.has(id));
  }
}

function changeOf(
  before: AgentInfo | undefined,
  now: AgentInfo,
): 'joined' | 'suspended' | 'changed' | undefined {
  if (before === undefined) return 'joined';
  if (JSON.stringify(before) === JSON.stringify(now)) return undefined;
  return now.state === 'suspended' && before.state !== 'suspended' ? 'suspended' : 'changed';
}

/** The JSON of one part of an answer. An identity has the field names of AVP. */
export function newsFields({ present, gone, isComplete }: DirectoryChanges): Fields {
  return {
    present: present.map(({ identity, compatibility, ...agent }) => ({
      ...agent,
      avp: identity && encodeAvpHello({ identity }),
      avp_mode: compatibility.mode,
      avp_map_id: compatibility.mapId,
      avp_path: compatibility.path,
    })),
    gone,
    complete: isComplete,
  };
}

/** @throws {ProtocolError} `bad_message`. */
export function decodeChanges(part: Message): DirectoryChanges {
  const value: unknown = part.json();
  const fields: Fields = isFields(value) ? value : {};
  const [present, gone] = [get(fields, 'present') ?? [], get(fields, 'gone') ?? []];
  if (!Array.isArray(present) || !Array.isArray(gone) || gone.some((id) => typeof id !== 'string')) {
    throw new ProtocolError(
      'bad_message',
      'an answer of the directory must list the agents in present and gone',
    );
  }
  return { present: present.map(decodeAgent), gone, isComplete: get(fields, 'complete') === true };
}

function decodeAgent(value: unknown): AgentInfo {
  const fields: Fields = isFields(value) ? value : {};
  const [id, avp, mapId] = [get(fields, 'id'), get(fields, 'avp'), get(fields, 'avp_map_id')];
  const address = get(fields, 'address');
  if (typeof id !== 'string')
    throw new ProtocolError('bad_message', 'an agent of the directory must have an id');
  return {
    id,
    address: typeof address === 'string' ? address : id,
    state: get(fields, 'state') === 'suspended' ? 'suspended' : 'connected',
    algorithms: namesField(fields, 'algorithms', MAX_NAMES, known(Algorithm)),
    encodings: namesField(fields, 'encodings', MAX_NAMES, known(EncodingName)),
    metadata: objectField(fields, 'metadata') as Metadata,
    identity: typeof avp === 'string' ? introducedModel(avp) : undefined,
    compatibility: {
      mode: get(fields, 'avp_mode') === 'latent' ? 'latent' : 'json',
      mapId: typeof mapId === 'string' ? mapId : '',
      path: known(PATHS)(String(get(fields, 'avp_path'))) ?? 'json_fallback',
    },
  };
}

const MAX_NAMES = 32;

const PATHS = {
  hash_match: 'hash_match',
  structural_match: 'structural_match',
  shared_tokenizer: 'shared_tokenizer',
  avp_map_file: 'avp_map_file',
  vocab_overlap: 'vocab_overlap',
  json_fallback: 'json_fallback',
} as const satisfies { readonly [Path in Compatibility['path']]: Path };

const known =
  <Name extends string>(names: Readonly<Record<string, Name>>) =>
  (name: string): Name | undefined =>
    Object.hasOwn(names, name) ? names[name] : undefined;

showAs(AgentsView, 'Agents', ({ list }) => ({ list }));
workAsTheyAre(AgentsView);
