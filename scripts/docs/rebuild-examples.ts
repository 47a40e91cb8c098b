import { type Fields, get, isFields } from '../../packages/protocol/src/base/fields.js';
import {
  acceptFields,
  helloFields,
  parseAccept,
  parseHello,
} from '../../packages/protocol/src/control/capabilities.js';
import { encodeMap } from '../../packages/protocol/src/control/maps.js';
import type {
  AcceptPayload,
  HelloPayload,
  RebuiltLink,
  ResumeOffer,
} from '../../packages/protocol/src/control/messages.js';

type Maps = readonly [hello: Uint8Array, accept: Uint8Array];

/** The maps `resume` of a HELLO that takes a session up, and of its ACCEPT. */
export function rebuildMaps(hello: HelloPayload, accept: AcceptPayload): Maps {
  return mapsOf(hello, accept, {}, {});
}

/** As {@link rebuildMaps}, of a durable session. */
export function durableRebuildMaps(hello: HelloPayload, accept: AcceptPayload): Maps {
  const have = { messages: 12, sent: 3, written: 4, opened: 9, heard: 0, streams: [] };
  return mapsOf(hello, accept, { have }, { kept: { handled: 4, again: [] } });
}

function mapsOf(
  hello: HelloPayload,
  accept: AcceptPayload,
  offered: Partial<ResumeOffer>,
  kept: Partial<RebuiltLink>,
): Maps {
  const asked = helloFields({
    ...hello,
    resume: {
      sessionId: 'sess_0123456789abcdefghij',
      token: 'token-1',
      received: 40,
      attempt: 3,
      rebuild: true,
      ...offered,
    },
  });
  const answered = acceptFields({
    ...accept,
    resume: {
      token: 'token-2',
      windowMs: 120_000,
      recovered: true,
      received: 0,
      rebuilt: { stream: 9, cancelled: [7, 9], ...kept },
    },
  });
  if (parseHello(asked).resume?.rebuild !== true) throw new Error('HELLO does not ask for a rebuilt link');
  if (parseAccept(answered).resume?.rebuilt?.stream !== 9)
    throw new Error('ACCEPT does not state a rebuilt link');
  return [encodeMap(resumeOf(asked)), encodeMap(resumeOf(answered))];
}

function resumeOf(payload: Fields): Fields {
  const resume = get(payload, 'resume');
  if (!isFields(resume)) throw new Error('there is no resume');
  return Object.fromEntries(Object.entries(resume).filter(([, value]) => value !== undefined));
}
