import type { FrameEvent, InspectionEvent } from '@parlance/client/inspect';
import { bytes, count, duration, number } from '../shared/format.js';

/** Phrases of the inspector. */

export const ARROWS = { sent: '→', received: '←' } as const;

/** `request #3`, `HELLO`. */
export function labelOf({ label, streamId }: FrameEvent): string {
  return streamId === undefined || streamId === 0 ? label : `${label} #${streamId}`;
}

/** How an event of the session looks: good, bad, or neither. */
export type Mood = 'good' | 'trouble' | 'plain';

/** A change of the session, in one line. */
export function remarkOf(event: Exclude<InspectionEvent, FrameEvent>): {
  readonly mood: Mood;
  readonly text: string;
} {
  switch (event.event) {
    case 'connection':
      if (event.what === 'open') return { mood: 'good', text: 'connection open' };
      if (event.what === 'failed')
        return { mood: 'trouble', text: `could not connect (${event.code ?? 1006})` };
      if (event.what === 'opening')
        return { mood: 'plain', text: `connecting to ${event.url ?? 'the server'}` };
      return {
        mood: event.code === 1000 ? 'plain' : 'trouble',
        text: `connection closed with ${event.code ?? 1006}${event.reason === undefined ? '' : `: ${event.reason}`}`,
      };
    case 'state':
      if (event.state === 'established')
        return { mood: 'good', text: `session ${event.session ?? ''} is open` };
      if (event.state === 'closed') return { mood: 'plain', text: 'session closed' };
      return {
        mood: 'trouble',
        text: `connection lost; the session is kept for ${duration(event.windowMs ?? 0)}`,
      };
    case 'replay': {
      const after = event.gapMs === undefined ? '' : ` after ${duration(event.gapMs)}`;
      if (event.isRebuilt) return { mood: 'good', text: `taken up by a page that was loaded again${after}` };
      const again = event.again === 0 ? '' : `, ${count(event.again, 'frame')} written again`;
      return {
        mood: 'good',
        text: `resumed${after}: the client had ${count(event.received, 'frame')}, the server ${number(event.acknowledged)}${again}`,
      };
    }
  }
}

/** Seconds since the beginning of the record, with as many digits as are needed to tell frames apart. */
export function clockOf(ms: number): string {
  return (ms / 1000).toFixed(3);
}

/** The part of the content that was not sent, in per cent; negative if the wire had more. */
export function savedPercent(wire: number, content: number): number {
  return Math.round((1 - wire / content) * 100);
}

/** `77 %` of a content. */
export function savedText(wire: number, content: number): string {
  return `${savedPercent(wire, content)}\u00a0%`;
}

/** `39.7 kB`, or `12 B more`. */
export function differenceText(wire: number, content: number): string {
  return wire <= content ? `${bytes(content - wire)} of ${bytes(content)}` : `${bytes(wire - content)} more`;
}

const SPOKEN = /"delta":\{[^{}]*?"content":("(?:[^"\\]|\\.)*")/g;

/** The words in the parts of a streamed chat completion; other text as it is. */
export function spokenOf(text: string): string {
  const words = [...text.matchAll(SPOKEN)].map(([, quoted = '""']) => textOf(quoted));
  return words.length === 0 ? text : words.join('');
}

function textOf(quoted: string): string {
  try {
    return String(JSON.parse(quoted));
  } catch {
    return '';
  }
}

/** Codecs for people who have not read the protocol. */
export const CODECS: Readonly<Record<string, string>> = {
  PLAIN: 'The content as it is. Nothing is smaller, or nothing else was agreed.',
  TOKEN_NATIVE: 'The text as token IDs: numbers for pieces of text, in a vocabulary that both ends have.',
  M2M: 'A chat request after a header that routers read without decompressing the message.',
  BROTLI: 'Compressed with Brotli, without regard to earlier messages.',
  CONTEXT: 'Only what differs from an earlier message of the same direction; the rest is copied from that.',
  AVP: 'A tensor after its description.',
  TOKEN: 'JSON with short names in place of those that chat APIs use.',
  DICTIONARY: 'Text in which frequent patterns of chat requests are single bytes.',
};

/** Why `auto` has chosen a codec. */
export const RULES: Readonly<Record<string, string>> = {
  only: 'No other codec can carry this message.',
  smallest: 'All candidates were tried on this message, and this result is the smallest.',
  learned: 'It has usually won for messages like this one, so the others were not tried again.',
  heuristic: 'The message is too short or too long for a comparison.',
  context: 'Coded against an earlier message, it is smaller than in all other codecs.',
  investment: 'It costs a little now, so that later messages can be coded against this one.',
};
