import { RequestError } from '../../base/errors.js';
import { whenAborted } from '../../base/when-aborted.js';
import { refuse } from '../messages/undecodable.js';
import type { Session } from '../session.js';
import { decodePull, encodePull } from './head.js';
import { type PullHandler, pulls } from './pulls.js';

/**
 * The bodies of HTTP requests that are streamed. A request has one body of limited size, and a reply has any number of
 * parts, with credit for them. So the end that fetches offers its body under an ID, and the end that answers asks for it:
 * the body is the reply to a request in the other direction.
 */

/** A body to be sent. */
export interface BodySource {
  /** The next piece; `undefined` after the last. */
  next(): Promise<string | Uint8Array | undefined>;
  /** Stops the producer, as no more is read. Never throws. */
  cancel(reason: unknown): void;
}

interface Upload {
  readonly source: BodySource;
  /** The source has failed. */
  readonly onFailed: (error: unknown) => void;
  isTaken: boolean;
  isWithdrawn: boolean;
}

/** The uploads that each session offers. */
const offered = new WeakMap<Session, Map<number, Upload>>();
let lastId = 0;

export interface OfferedUpload {
  readonly id: number;
  /** The request is over. Stops the producer. */
  withdraw(reason: unknown): void;
}

/** Offers a body to the other end of a session, once. */
export function offerUpload(
  session: Session,
  source: BodySource,
  onFailed: (error: unknown) => void,
): OfferedUpload {
  pulls.answer = answerPull;
  const uploads = offered.get(session) ?? new Map<number, Upload>();
  offered.set(session, uploads);
  const id = ++lastId;
  const upload = { source, onFailed, isTaken: false, isWithdrawn: false };
  uploads.set(id, upload);
  return {
    id,
    withdraw(reason) {
      if (upload.isWithdrawn) return;
      upload.isWithdrawn = true;
      uploads.delete(id);
      source.cancel(reason);
    },
  };
}

/** Sends a body that this end has offered. Only the other end itself gets it, not a client behind it. */
const answerPull: PullHandler = async function* ({ from }, { session, metadata, signal }) {
  const id = decodePull(metadata) ?? 0;
  const upload = from === undefined ? offered.get(session)?.get(id) : undefined;
  if (upload === undefined || upload.isTaken) throw unknown();
  upload.isTaken = true;
  const { source } = upload;
  const stop = () => source.cancel(signal.reason);
  const free = whenAborted(signal, stop);
  if (signal.aborted) stop();
  try {
    for (;;) {
      const piece = await source.next();
      // A body that was cut short must not pass for a complete one.
      if (upload.isWithdrawn) throw unknown();
      if (piece === undefined) return;
      yield piece;
    }
  } catch (error) {
    // A source that was stopped has not failed.
    if (!upload.isWithdrawn && !signal.aborted) upload.onFailed(error);
    throw refuse(new RequestError('body_failed', 'the body of the request could not be read'));
  } finally {
    free();
    source.cancel(undefined);
  }
};

function unknown(): RequestError {
  return refuse(
    new RequestError('unknown_body', 'the request with this body is over, or it was read before'),
  );
}

/** The body of an upload as its parts arrive, from when the first is asked for. An abort stops the producer. */
export async function* readUpload(
  session: Pick<Session, 'stream'>,
  upload: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const parts = session.stream('', { metadata: encodePull(upload), signal });
  for await (const part of parts) if (part.bytes.length > 0) yield part.bytes;
}

/** The whole body of an upload, within the limit of a message. @throws {ProtocolError} `message_too_large`. */
export async function collectUpload(
  session: Pick<Session, 'request'>,
  upload: number,
  signal: AbortSignal,
): Promise<Uint8Array> {
  return (await session.request('', { metadata: encodePull(upload), signal })).bytes;
}
