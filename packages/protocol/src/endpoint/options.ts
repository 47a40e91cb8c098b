import { Algorithm, type EncodingName, Extension } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import type { Limits, Timers } from '../base/limits.js';
import { type OptionKinds, unknownName } from '../base/options.js';
import { type AvpOptions, introduction } from '../codec/avp/agreement.js';
import { stateContext } from '../codec/context/parameters.js';
import type { Capabilities } from '../control/negotiate.js';
import { VOCABULARY_HASHES } from '../tokenizer/vocabulary.js';
import { type AgentOptions, agentExtension } from './agents/description.js';
import type { TransferMode } from './tensors/receiver.js';

/** What client and server state alike. */
export interface CapabilityOptions {
  /** In order of preference. @default all six, M2M first */
  readonly algorithms?: readonly Algorithm[] | undefined;
  /** In order of preference, the first is preferred. @default CL100K_BASE, O200K_BASE */
  readonly encodings?: readonly EncodingName[] | undefined;
  /** Extensions to switch off or on by name. @default all that this version has */
  readonly extensions?: Readonly<Record<string, boolean>> | undefined;
  /**
   * Client: asks the server to say what its scan found. Server: on where it has a `scan`. @default false
   */
  readonly securityScanning?: boolean | undefined;
  /**
   * The model behind this end. Where both ends name theirs, `negotiated.avp` says whether tensors of
   * the one mean anything to the other, and `sendTensor` goes by it; other agents of a server find it in
   * their directory. @default none is introduced
   */
  readonly avp?: AvpOptions | undefined;
  /** Whether a received tensor is one piece of memory or is read while it arrives. @default 'assemble' */
  readonly transfers?: TransferMode | undefined;
}

/** What both ends' options that are stated may be. */
export const CAPABILITY_KINDS: OptionKinds<CapabilityOptions> = {
  algorithms: 'list',
  encodings: 'list',
  extensions: 'object',
  securityScanning: 'flag',
  avp: 'object',
  transfers: 'text',
};

const TRANSFER_MODES: readonly TransferMode[] = ['assemble', 'stream'];
const DEFAULT_ALGORITHMS: readonly Algorithm[] = Object.values(Algorithm);
const DEFAULT_ENCODINGS: readonly EncodingName[] = ['CL100K_BASE', 'O200K_BASE'];
const KNOWN_EXTENSIONS: readonly string[] = ['link', 'resume', 'context', 'avp', 'agents'];

/**
 * Turns options into what HELLO or ACCEPT state.
 *
 * @param options with the name under which a client introduces itself.
 * @throws {ProtocolError} `invalid_option`.
 */
export function resolveCapabilities(
  options: CapabilityOptions & {
    readonly agent?: AgentOptions | undefined;
    readonly agentId?: string | undefined;
    /** With it M2M alone is stated, and nothing that any other body is needed for. */
    readonly security?: object | undefined;
    /** One-way messages and tensors have a reader. @default true */
    readonly takesMessages?: boolean | undefined;
  },
  limits: Limits,
): Capabilities {
  const isProtected = options.security !== undefined;
  if (options.transfers !== undefined && !TRANSFER_MODES.includes(options.transfers)) {
    throw new ProtocolError('invalid_option', `transfers is one of ${TRANSFER_MODES.join(', ')}`);
  }
  const known = names('algorithms', options.algorithms ?? DEFAULT_ALGORITHMS, Object.values(Algorithm));
  const vocabularyNames = names(
    'encodings',
    options.encodings ?? DEFAULT_ENCODINGS,
    Object.keys(VOCABULARY_HASHES),
  ) as EncodingName[];
  if (known.length === 0) throw new ProtocolError('invalid_option', 'algorithms: at least one is needed');
  if (isProtected && !known.includes(Algorithm.M2M)) {
    throw new ProtocolError('invalid_option', 'security: only M2M is protected, which algorithms leaves out');
  }
  const algorithms = isProtected ? [Algorithm.M2M] : known;
  const encodings = isProtected ? [] : vocabularyNames;
  const stated = Object.entries(options.extensions ?? {}).filter(([, value]) => value !== undefined);
  const wanted = {
    link: true,
    resume: true,
    context: true,
    agents: true,
    avp: true,
    ...Object.fromEntries(stated),
  };
  for (const [name, value] of Object.entries(wanted)) {
    if (!KNOWN_EXTENSIONS.includes(name)) throw unknownName('extension', name, KNOWN_EXTENSIONS);
    if (typeof value !== 'boolean') {
      throw new ProtocolError('invalid_option', `extensions.${name}: true or false is expected`);
    }
  }
  const vocabularies = Object.fromEntries(encodings.map((name) => [name, VOCABULARY_HASHES[name]]));
  const extensions: Record<string, string> = Object.create(null);
  if (wanted.link) extensions[Extension.LINK] = JSON.stringify(statedLink(limits, options.takesMessages));
  if (wanted.resume) extensions[Extension.RESUME] = '{}';
  if (wanted.context && !isProtected) extensions[Extension.CONTEXT] = stateContext(contextBounds(limits));
  if (wanted.agents) extensions[Extension.AGENTS] = agentExtension(options.agent ?? {});
  const { avp } = options;
  if (wanted.avp && avp !== undefined && !isProtected)
    extensions[Extension.AVP] = introduction(avp, options.agentId);
  if (encodings.length > 0) extensions[Extension.VOCABULARIES] = JSON.stringify(vocabularies);
  return {
    algorithms,
    encodings,
    vocabularies,
    securityScanning: options.securityScanning ?? false,
    maxPayloadSize: Number.isFinite(limits.maxMessageSize) ? limits.maxMessageSize : 0,
    extensions: Object.freeze(extensions),
    ...(isProtected ? { isProtected } : {}),
  };
}

/** A share below this would cut every message of some size into many frames. */
const MIN_STREAM_WINDOW = 16 * 1024;

const contextBounds = ({ contextBytes, contextMessages }: Limits) => ({
  maxBytes: contextBytes,
  maxMessages: contextMessages,
});

/** What is unlimited is not stated. */
function statedLink(limits: Limits, takesMessages = true): Record<string, unknown> {
  const { maxStreams, sessionWindow, streamWindow, maxTransferSize } = limits;
  const share = Math.max(MIN_STREAM_WINDOW, Math.floor(sessionWindow / 2 / maxStreams));
  const stated = {
    max_streams: maxStreams,
    message_window: Math.max(share, Math.min(streamWindow, Math.floor(sessionWindow / 2))),
    stream_window: Math.min(share, Math.max(MIN_STREAM_WINDOW, streamWindow)),
    max_transfer: maxTransferSize,
  };
  const finite = Object.entries(stated).filter(([, value]) => Number.isFinite(value));
  return { ...Object.fromEntries(finite), ...(takesMessages ? {} : { messages: false }) };
}

function names<Name extends string>(
  option: string,
  given: readonly Name[],
  known: readonly string[],
): Name[] {
  if (!Array.isArray(given)) throw new ProtocolError('invalid_option', `${option} is a list of names`);
  for (const name of given) {
    if (!known.includes(name)) {
      throw new ProtocolError(
        'invalid_option',
        `${option}: "${String(name)}" is none of ${known.join(', ')}`,
      );
    }
  }
  return [...new Set(given)];
}

/** How often timers are looked at: often enough for the shortest of them, at most once in 10 ms. */
export function sweepInterval(timers: Timers): number {
  return Math.max(10, Math.min(1_000, Math.min(...Object.values(timers).filter((time) => time > 0)) / 4));
}
