import { codecs } from '#codecs';
import {
  Algorithm,
  type EncodingName,
  Extension,
  NEEDS_LINK,
  NEEDS_RESUME,
  OFF_BY_DEFAULT,
  SWITCHED_EXTENSIONS,
} from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import type { StringMap } from '../base/fields.js';
import type { Limits } from '../base/limits.js';
import { unknownName } from '../base/options.js';
import { encodeContextParameters } from '../codec/context/parameters.js';
import type { LaterCodec } from '../control/messages.js';
import type { Capabilities } from '../control/negotiate.js';
import { VOCABULARY_HASHES } from '../tokenizer/hashes.js';
import { DEFAULT_ALGORITHMS, DEFAULT_ENCODINGS, type OfferOptions } from './options.js';
import type { TransferMode } from './tensors/receiver.js';

const TRANSFER_MODES: readonly TransferMode[] = ['assemble', 'stream'];
const KNOWN_EXTENSIONS: readonly string[] = Object.keys(SWITCHED_EXTENSIONS);

/**
 * Resolves options to the capabilities that HELLO or ACCEPT advertises.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function resolveCapabilities(options: OfferOptions, limits: Limits): Capabilities {
  const isProtected = options.security !== undefined;
  if (options.transfers !== undefined && !TRANSFER_MODES.includes(options.transfers)) {
    throw new ProtocolError('invalid_option', `transfers: expected one of ${TRANSFER_MODES.join(', ')}`);
  }
  const { isLoaded } = options;
  const vocabularyNames = names(
    'encodings',
    options.encodings ?? DEFAULT_ENCODINGS,
    Object.keys(VOCABULARY_HASHES),
  ) as EncodingName[];
  const known = names('algorithms', options.algorithms ?? DEFAULT_ALGORITHMS, Object.values(Algorithm));
  if (known.length === 0) throw new ProtocolError('invalid_option', 'algorithms: expected at least one');
  if (isProtected && !known.includes(Algorithm.M2M)) {
    throw new ProtocolError(
      'invalid_option',
      'security: needs M2M in algorithms, the only codec with protection',
    );
  }
  const algorithms = isProtected ? [Algorithm.M2M] : known;
  const encodings = isProtected ? [] : vocabularyNames;
  const stated = Object.entries(options.extensions ?? {}).filter(([, value]) => value !== undefined);
  for (const [name, value] of stated) {
    if (!KNOWN_EXTENSIONS.includes(name)) throw unknownName('extension', name, KNOWN_EXTENSIONS);
    if (typeof value !== 'boolean') {
      throw new ProtocolError('invalid_option', `extensions.${name}: expected true or false`);
    }
  }
  const switches = new Map(stated);
  const isOn = (name: string) => switches.get(name) ?? !OFF_BY_DEFAULT.includes(name);
  const isOffered = (name: string) =>
    isOn(name) &&
    (isOn(Extension.LINK) || !NEEDS_LINK.includes(name)) &&
    (isOn(Extension.RESUME) || !NEEDS_RESUME.includes(name));
  const { avp } = options;
  const hasContext = isOn(Extension.CONTEXT) && !isProtected;
  const hasAvp = isOn(Extension.AVP) && !isProtected && avp !== undefined;
  const statements: StringMap = {
    ...SWITCHED_EXTENSIONS,
    [Extension.LINK]: JSON.stringify(linkExtension(limits, options.takesMessages)),
    [Extension.CONTEXT]: hasContext ? encodeContextParameters(contextBounds(limits)) : '',
    [Extension.AVP]: hasAvp ? codecs.avp.get().introduction(avp, options.agentId) : '',
    ...options.statements,
  };
  const vocabularies = Object.fromEntries(encodings.map((name) => [name, VOCABULARY_HASHES[name]]));
  const extensions: Record<string, string> = Object.create(null);
  for (const [name, statement] of Object.entries(statements))
    if (statement !== '' && isOffered(name)) extensions[name] = statement;
  if (isOn(Extension.LINK)) {
    const offered: LaterCodec[] = hasContext ? [...algorithms, 'CONTEXT'] : algorithms;
    const later = offered.filter((codec) => isLoaded?.(codec, encodings[0] ?? null) === false);
    if (later.length > 0 || isLoaded === undefined) extensions[Extension.READY] = JSON.stringify(later);
  }
  extensions[Extension.STANDARD] = '1';
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

/** Bytes. With less, a message of medium size would take many frames. */
const MIN_STREAM_WINDOW = 16 * 1024;
/** Charges of a body's first frame beside its metadata, at most, and one byte of the body. */
const HEAD_CHARGE = 64;

const contextBounds = ({ contextBytes, contextMessages }: Limits) => ({
  maxBytes: contextBytes,
  maxMessages: contextMessages,
});

/** The value of the extension `link`. Unlimited values are left out. */
function linkExtension(limits: Limits, takesMessages = true): Record<string, unknown> {
  const { maxStreams, sessionWindow, streamWindow, maxTransferSize, maxMetadataSize } = limits;
  // Metadata travel in one frame, so a smaller window would hold them back for ever.
  const whole = Number.isFinite(maxMetadataSize) ? maxMetadataSize + HEAD_CHARGE : 0;
  const least = Math.max(MIN_STREAM_WINDOW, whole);
  const share = Math.max(least, Math.floor(sessionWindow / 2 / maxStreams));
  const windows = {
    max_streams: maxStreams,
    message_window: Math.max(share, Math.min(streamWindow, Math.floor(sessionWindow / 2))),
    stream_window: Math.min(share, Math.max(least, streamWindow)),
    max_transfer: maxTransferSize,
  };
  const finite = Object.entries(windows).filter(([, value]) => Number.isFinite(value));
  return { ...Object.fromEntries(finite), ...(takesMessages ? {} : { messages: false }) };
}

function names<Name extends string>(
  option: string,
  given: readonly Name[],
  known: readonly string[],
): Name[] {
  if (!Array.isArray(given)) throw new ProtocolError('invalid_option', `${option}: expected a list of names`);
  for (const name of given) {
    if (!known.includes(name)) {
      throw new ProtocolError(
        'invalid_option',
        `${option}: unknown name "${String(name)}"; known names: ${known.join(', ')}`,
      );
    }
  }
  return [...new Set(given)];
}
