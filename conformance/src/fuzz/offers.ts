import { Algorithm, EncodingName, type Limits, resolveLimits, type SessionOptions } from '../subject.js';
import type { Choices } from './choices.js';
import { FUZZ_LIMITS } from './target.js';

/** All that one end of a session offers, demands and states, and that its peer must handle. */
export interface Offer {
  /**
   * It demands what it states, and lets control messages through: a peer that follows the protocol can
   * comply.
   */
  readonly isConsistent: boolean;
  readonly capabilities: SessionOptions['capabilities'];
  readonly limits: Limits;
}

const SIZES = [1, 16, 17, 100, 1_000, 65_536] as const;
/** Credit that lets bodies through, and must be renewed now and then. */
const WINDOWS = [200, 400, 1_000, 4_096] as const;
/** Less than any body costs, exactly the cost of the smallest body, and more than exists. */
const ODD_WINDOWS = [1, 15, 16, 17, 18, 2 ** 31, Number.MAX_SAFE_INTEGER] as const;
/** Most ends state usual values; for each value, one in this many states something odd. */
const ODD = 16;
/** Below this, control messages do not fit. */
const LEAST_MESSAGE = 1_000;

export function drawOffer(choices: Choices): Offer {
  const algorithms = subset(choices, Object.values(Algorithm));
  const limits = drawLimits(choices);
  const { maxMessageSize, maxTransferSize, maxStreams } = limits;
  const isConsistent = !choices.oneIn(ODD) && maxMessageSize >= LEAST_MESSAGE;
  const stated = isConsistent ? { max_streams: maxStreams, max_transfer: maxTransferSize } : {};
  const extensions: Record<string, string> = {};
  if (!choices.oneIn(ODD)) extensions['link'] = JSON.stringify({ ...drawLink(choices), ...stated });
  if (choices.oneIn(2)) extensions['resume'] = '{}';
  if (choices.oneIn(2)) {
    const bounds = { max_bytes: choices.pick([1, 64, 4_096, 65_536]), max_messages: choices.pick([1, 3, 8]) };
    extensions['context'] = JSON.stringify(bounds);
  }
  if (!choices.oneIn(3)) extensions['agents'] = '{}';
  return {
    isConsistent,
    capabilities: {
      algorithms,
      encodings: choices.oneIn(4) ? [] : [EncodingName.CL100K_BASE],
      vocabularies: {},
      securityScanning: choices.oneIn(ODD),
      maxPayloadSize: isConsistent ? maxMessageSize : choices.oneIn(ODD) ? choices.pick(SIZES) : 0,
      extensions,
    },
    limits,
  };
}

function drawLink(choices: Choices): Record<string, number> {
  const link: Record<string, number> = {};
  for (const name of ['message_window', 'stream_window']) {
    if (choices.oneIn(ODD)) link[name] = choices.pick(ODD_WINDOWS);
    else if (!choices.oneIn(4)) link[name] = choices.pick(WINDOWS);
  }
  if (choices.oneIn(ODD)) link['max_streams'] = choices.pick([1, 2, 8]);
  if (choices.oneIn(ODD)) link['max_transfer'] = choices.pick(SIZES);
  return link;
}

function drawLimits(choices: Choices): Limits {
  const stated: Partial<Record<keyof Limits, number>> = {
    ...FUZZ_LIMITS,
    messagesPerMinute: Infinity,
    bytesPerSecond: Infinity,
  };
  const odd = (name: keyof Limits, values: readonly number[]) => {
    if (choices.oneIn(ODD)) stated[name] = choices.pick(values);
  };
  odd('maxMessageSize', SIZES);
  odd('maxTransferSize', SIZES);
  odd('maxStreams', [1, 2, 8, 1_000]);
  odd('sessionWindow', [1, 17, 1_000, 65_536, Infinity]);
  odd('streamWindow', [1, 17, 1_000, 65_536, Infinity]);
  odd('messagesPerMinute', [1, 60, 1_000]);
  odd('bytesPerSecond', [1, 1_000, 100_000]);
  return resolveLimits(stated);
}

/** Usually all of them, in any order. */
function subset<T>(choices: Choices, all: readonly T[]): T[] {
  const list = [...all];
  for (let i = list.length - 1; i > 0; i--) {
    const j = choices.below(i + 1);
    [list[i], list[j]] = [list[j] as T, list[i] as T];
  }
  return choices.oneIn(2) ? list : list.slice(0, Math.max(1, choices.below(list.length + 1)));
}
