import { type EncodingName, Extension } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { FrameKind, frameKind } from '../base/frame-kind.js';
import { type Limits, resolveLimits } from '../base/limits.js';
import { agreeOnContext } from '../codec/context/parameters.js';
import { decodeControl, decodeControlJson } from '../control/envelope.js';
import type { ControlMessage, UnknownMessage } from '../control/messages.js';
import { decodeLinkFrame, type LinkFrame, LinkKind } from '../link/frame.js';
import { createBodyTracker } from './body-tracker.js';
import { ContextFollower } from './context-follower.js';
import type { ExplainOptions, Explanation } from './explanation.js';
import { explainFrame } from './frame.js';

/** Which way a frame goes, as seen from the end that is looked at. */
export type Direction = 'sent' | 'received';

/**
 * Explains the frames of a session as they pass, in both directions and over all its connections. It
 * knows what no frame says by itself: the vocabulary that was agreed on, which bodies are under way, and
 * the messages that later ones are coded against.
 */
export interface SessionExplainer {
  /** Explains the next frame of a direction, whatever it holds; nobody may change its bytes later. */
  explain(direction: Direction, frame: Uint8Array | string): Explanation;
}

/**
 * @param options `encoding`, `continues` and `decoded` are found out.
 * @throws {ProtocolError} `invalid_option`.
 */
export function createSessionExplainer(
  options: Omit<ExplainOptions, 'encoding' | 'continues' | 'decoded'> = {},
): SessionExplainer {
  const limits = resolveLimits(options.limits);
  let bodies = bothWays(() => createBodyTracker(limits.maxMetadataSize));
  /** Where context was agreed. */
  let contexts: Record<Direction, ContextFollower> | undefined;
  /** The extension as HELLO stated it. */
  let offeredContext: string | undefined;
  let encoding: EncodingName | undefined;
  /** Frames that the client had received when it said HELLO. */
  let clientReceived = 0;

  const learn = (direction: Direction, message: ControlMessage | UnknownMessage): void => {
    if (message.type === 'HELLO') {
      clientReceived = message.payload.resume?.received ?? 0;
      offeredContext = message.payload.extensions[Extension.CONTEXT];
    }
    if (message.type !== 'ACCEPT') return;
    encoding = message.payload.encoding ?? undefined;
    const { resume } = message.payload;
    if (resume?.recovered !== true) {
      bodies = bothWays(() => createBodyTracker(limits.maxMetadataSize));
      contexts = contextsOf(offeredContext, message.payload.extensions[Extension.CONTEXT], limits);
      return;
    }
    bodies[direction].rewind(clientReceived);
    bodies[other(direction)].rewind(resume.received);
  };

  return {
    explain(direction, data) {
      const link = linkFrameOf(data);
      const tracker = bodies[direction];
      const continues = link && tracker.continuation(link);
      const context = contexts?.[direction];
      const decoded =
        link &&
        (tracker.isRepeating ? context?.recall(link, tracker.number) : context?.follow(link, tracker.number));
      const explanation = explainFrame(data, { ...options, encoding, continues, decoded });
      if (explanation.kind === 'control' && explanation.error === undefined) {
        learn(
          direction,
          typeof data === 'string' ? decodeControlJson(data, limits) : decodeControl(data, limits),
        );
      }
      if (link?.kind === LinkKind.ACK) {
        bodies[other(direction)].confirm(link.streamId);
        contexts?.[other(direction)].confirm(link.streamId);
      } else if (link !== undefined) tracker.add(link, continues);
      return explanation;
    },
  };
}

function bothWays<T>(create: () => T): Record<Direction, T> {
  return { sent: create(), received: create() };
}

function contextsOf(
  offered: string | undefined,
  accepted: string | undefined,
  limits: Limits,
): Record<Direction, ContextFollower> | undefined {
  if (offered === undefined || accepted === undefined) return undefined;
  try {
    const parameters = agreeOnContext(offered, accepted);
    return bothWays(() => new ContextFollower(parameters, limits));
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

function other(direction: Direction): Direction {
  return direction === 'sent' ? 'received' : 'sent';
}

function linkFrameOf(data: Uint8Array | string): LinkFrame | undefined {
  if (typeof data === 'string') return undefined;
  try {
    return frameKind(data) === FrameKind.LINK ? decodeLinkFrame(data) : undefined;
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}
