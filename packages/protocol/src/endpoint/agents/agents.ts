import { Algorithm, EncodingName } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { type Fields, get, isFields, namesField, objectField } from '../../base/fields.js';
import { decodeAvpHello, encodeAvpHello } from '../../codec/avp/hello.js';
import type { ModelIdentity } from '../../codec/avp/identity.js';
import type { Compatibility } from '../../codec/avp/resolve.js';
import type { Message } from '../messages/message.js';
import type { Metadata } from '../messages/metadata.js';
import type { Body } from '../messages/part.js';
import type { ReplyStream } from '../requests/reply.js';

/**
 * The directory of agents as a session sees it. It is asked by a request to `@directory`, whose answer
 * is a stream of JSON: first whoever is there, then, where they are wanted, the changes.
 */

/** Another agent of the server. */
export interface AgentInfo {
  /** The agent's ID; of another principal's agent, whose ID only its own principal knows, its address. */
  readonly id: string;
  /** Names the agent in `to`, and is what `from` says of its messages; the same for as long as the server lives. */
  readonly address: string;
  /** `suspended`: its connection is lost; what is sent waits for it to come back. */
  readonly state: 'connected' | 'suspended';
  readonly algorithms: readonly Algorithm[];
  /** The encoding that its session has agreed on. */
  readonly encodings: readonly EncodingName[];
  /** What it says about itself. */
  readonly metadata: Metadata;
  /** The model that it says it runs. */
  readonly identity: ModelIdentity | undefined;
  /** How tensors get from this session's agent to that one, by AVP's resolver. */
  readonly compatibility: Compatibility;
}

export type AgentChange =
  | { readonly type: 'joined' | 'suspended' | 'changed'; readonly agent: AgentInfo }
  /** `agent` as it was last. */
  | { readonly type: 'left'; readonly agent: AgentInfo };

/** The agents that a session may see, and what becomes of them. */
export interface Agents extends AsyncIterable<AgentChange> {
  /** As they were when asked; kept up to date by whoever iterates. */
  readonly list: readonly AgentInfo[];
  get(id: string): AgentInfo | undefined;
}

/** What is asked of the directory. */
export interface DirectoryQuery {
  /** Go on with changes after the agents that are there. */
  readonly watch: boolean;
}

/**
 * One piece of an answer. While `isComplete` is false, more pieces of the first list follow. Of an agent
 * that changed several times the latest state is told.
 */
export interface DirectoryNews {
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

  async refresh(): Promise<void> {
    const agents = new Map<string, AgentInfo>();
    for await (const part of this.#ask({ watch: false } satisfies DirectoryQuery)) {
      for (const agent of decodeNews(part).present) agents.set(agent.id, agent);
    }
    this.#agents = agents;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<AgentChange> {
    /** Who has been told of in the first list; the others that are known have left meanwhile. */
    let seen: Set<string> | undefined = new Set();
    for await (const part of this.#ask({ watch: true } satisfies DirectoryQuery)) {
      const { present, gone, isComplete } = decodeNews(part);
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

/** The JSON of a piece of an answer; an identity travels in AVP's own field names. */
export function newsFields({ present, gone, isComplete }: DirectoryNews): Fields {
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
function decodeNews(part: Message): DirectoryNews {
  const value: unknown = part.json();
  const fields: Fields = isFields(value) ? value : {};
  const [present, gone] = [get(fields, 'present') ?? [], get(fields, 'gone') ?? []];
  if (!Array.isArray(present) || !Array.isArray(gone) || gone.some((id) => typeof id !== 'string')) {
    throw new ProtocolError('bad_message', 'the directory answers with the agents present and gone');
  }
  return { present: present.map(decodeAgent), gone, isComplete: get(fields, 'complete') === true };
}

function decodeAgent(value: unknown): AgentInfo {
  const fields: Fields = isFields(value) ? value : {};
  const [id, avp, mapId] = [get(fields, 'id'), get(fields, 'avp'), get(fields, 'avp_map_id')];
  const address = get(fields, 'address');
  if (typeof id !== 'string') throw new ProtocolError('bad_message', 'an agent in the directory has an id');
  return {
    id,
    address: typeof address === 'string' ? address : id,
    state: get(fields, 'state') === 'suspended' ? 'suspended' : 'connected',
    algorithms: namesField(fields, 'algorithms', MAX_NAMES, known(Algorithm)),
    encodings: namesField(fields, 'encodings', MAX_NAMES, known(EncodingName)),
    metadata: objectField(fields, 'metadata') as Metadata,
    identity: typeof avp === 'string' ? decodeAvpHello(avp).identity : undefined,
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
