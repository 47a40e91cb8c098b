import { MAX_STREAM_ID } from '../base/constants.js';
import { bad, type Fields, get, isCount } from '../base/fields.js';
import { type Have, type HeldStream, type KeptBodies, MAX_HELD_STREAMS } from './messages.js';

/** The fields of HELLO and ACCEPT for a recorded session. Streams of a client have odd IDs, so they can be checked here. */

const isId = (id: unknown): id is number => isCount(id) && id % 2 === 1 && id <= MAX_STREAM_ID;

/** @throws {ProtocolError} `bad_message`. */
export function readKept({ handled, again }: Fields): KeptBodies {
  if (!isCount(handled) || !Array.isArray(again) || again.length > MAX_HELD_STREAMS || !again.every(isId))
    throw bad('kept', 'a count of messages, and stream IDs of the client');
  return { handled, again };
}

const ACKNOWLEDGED = 1;
const CANCELLED = 2;

export function haveFields({ streams, ...counts }: Have): Fields {
  return { ...counts, streams: streams.flatMap(streamValues) };
}

function streamValues({ id, parts, isAcknowledged, isCancelled }: HeldStream): number[] {
  return [id, parts, (isAcknowledged ? ACKNOWLEDGED : 0) + (isCancelled ? CANCELLED : 0)];
}

/** @throws {ProtocolError} `bad_message`. */
export function readHave(fields: Fields): Have {
  const count = (name: string): number => {
    const value = get(fields, name);
    if (isCount(value)) return value;
    throw bad('have', 'counts of messages and streams');
  };
  const opened = count('opened');
  const heard = count('heard');
  const sent = count('sent');
  const written = count('written');
  if ((opened !== 0 && !isId(opened)) || heard % 2 === 1 || heard > MAX_STREAM_ID || sent > written)
    throw bad('have', 'possible counts');
  return {
    ...{ messages: count('messages'), sent, written, opened, heard },
    streams: streamsOf(get(fields, 'streams'), opened),
  };
}

function streamsOf(values: unknown, opened: number): HeldStream[] {
  const error = bad('have', 'open requests with ascending IDs');
  if (!Array.isArray(values) || values.length % 3 !== 0 || values.length > 3 * MAX_HELD_STREAMS) throw error;
  const streams: HeldStream[] = [];
  let last = 0;
  for (let i = 0; i < values.length; i += 3) {
    const [id, parts, flags]: readonly unknown[] = values.slice(i, i + 3);
    if (!isId(id) || id <= last || id > opened || !isCount(parts) || !isCount(flags)) throw error;
    last = id;
    streams.push({
      id,
      parts,
      isAcknowledged: (flags & ACKNOWLEDGED) !== 0,
      isCancelled: (flags & CANCELLED) !== 0,
    });
  }
  return streams;
}
