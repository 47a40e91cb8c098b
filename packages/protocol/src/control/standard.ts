import { type Fields, isFields, isStated, type StringMap } from '../base/fields.js';
import { Memo } from '../base/memo.js';

/**
 * The values that HELLO and ACCEPT leave out: two ends of one build state only the differences from them
 * (docs/protocol/control.md, "Standard values"). They are part of the protocol and not of our options, which may change.
 */

/** The parameters that the member `std` of an extension stands for. */
export const STANDARD_PARAMETERS: Readonly<Record<string, Fields>> = {
  link: {
    max_streams: 128,
    message_window: 1_048_576,
    stream_window: 16_384,
    max_transfer: 1_073_741_824,
  },
  context: { max_bytes: 4_194_304, max_messages: 8 },
};

/** Absent fields of a HELLO or ACCEPT with the extension `std`. */
export const STANDARD_VALUES = {
  version: '1.0',
  encoding: 'CL100K_BASE',
  sessionTimeoutMs: 300_000,
  maxPayloadSize: 16_777_216,
  windowMs: 120_000,
  recovered: false,
  received: 0,
  limits: {
    maxMessageSize: 16_777_216,
    maxTransferSize: 1_073_741_824,
    maxMetadataSize: 8_192,
    maxStreams: 128,
    messagesPerMinute: 6_000,
    bytesPerSecond: 10_000_000,
  },
} as const;

/**
 * The extensions as they are written to a peer that understands `std`: parameters that have their standard values are left out.
 * Parameters of which one is unlimited are written as they are, because there an absent member means unlimited.
 */
export const shortenExtensions = eachParameters((standard, stated, text) => {
  if (Object.keys(standard).some((name) => !isStated(stated, name))) return text;
  const rest: Record<string, unknown> = { std: 1 };
  for (const [name, value] of Object.entries(stated)) if (value !== standard[name]) rest[name] = value;
  const short = JSON.stringify(rest);
  return short.length < text.length ? short : text;
});

/** The extensions as they are meant. A value that is not an object of parameters stays; its readers refuse it. */
export const expandExtensions = eachParameters((standard, { std, ...stated }, text) => {
  if (std !== 1) return text;
  const named = Object.entries(stated).filter(([, value]) => value !== null);
  return JSON.stringify({ ...standard, ...Object.fromEntries(named) });
});

/** A change of all parameters that have standard values; each spelling is parsed once, as all sessions have the same few. */
function eachParameters(
  change: (standard: Fields, stated: Fields, text: string) => string,
): (extensions: StringMap) => StringMap {
  const all = Object.entries(STANDARD_PARAMETERS).map(
    ([name, standard]) => [name, standard, new Memo<string>()] as const,
  );
  return (extensions) => {
    const changed: Record<string, string> = Object.assign(Object.create(null), extensions);
    for (const [name, standard, known] of all) {
      const text = changed[name];
      if (text === undefined) continue;
      changed[name] = known.recall(text, () => {
        try {
          const stated: unknown = JSON.parse(text);
          if (isFields(stated)) return change(standard, stated, text);
        } catch {}
        return text;
      });
    }
    return changed;
  };
}

const LIMITS = Object.entries(STANDARD_VALUES.limits);

/** Whether an ACCEPT need not state these limits. */
export const areStandard = (limits: Readonly<Record<string, number>>): boolean =>
  Object.keys(limits).length === LIMITS.length && LIMITS.every(([name, value]) => limits[name] === value);
