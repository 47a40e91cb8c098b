import { byId } from '../shared/dom.js';
import { clock, count, number, seconds } from '../shared/format.js';
import type { LinkState } from './session-link.js';
import type { Hearing } from './silence.js';

/** The light in the head: live with the round trip, quiet, offline with what comes next, or back. */
export interface Light {
  /** @param movesUntil until when another connection may take over, in Unix milliseconds; 0 if none does. */
  show(state: LinkState, hearing: Hearing, movesUntil?: number): void;
  /** The connection is back; says for a moment how much came at once. */
  back(caught: number): void;
}

/** How long it says that the connection is back, in milliseconds. */
const BACK_MS = 5_000;
const LOOK_MS = 250;
/** The browser says so; a server on the same machine may still be reached. */
export const OFFLINE = 'This browser is offline';
/** A round trip that took longer was that of a PING that waited for a dead connection, in milliseconds. */
const MAX_ROUND_TRIP_MS = 1_000;

/** @param onLook called with the time that this light shows, so that the notice counts the same seconds. */
export function createLight(onLook: (now: number) => void): Light {
  let shown:
    | { readonly state: LinkState; readonly hearing: Hearing; readonly movesUntil: number }
    | undefined;
  let backUntil = 0;
  let caughtUp = 0;

  function paint(): void {
    if (shown === undefined) return;
    const { state, hearing, movesUntil } = shown;
    const now = Date.now();
    const isMoving = state.name === 'suspended' && now < movesUntil;
    const isBack = state.name === 'connected' && hearing.name === 'live' && performance.now() < backUntil;
    const [status, rest] = isBack
      ? ['Back', caughtUp === 0 ? '' : `· ${count(caughtUp, 'piece')} caught up`]
      : isMoving
        ? ['Moving…', '']
        : wordsOf(state, hearing, now);
    // Screen readers read each change of the first word, and not each second.
    set('status', status);
    set('light-rest', rest);
    onLook(now);
  }

  setInterval(paint, LOOK_MS);
  return {
    show(state, hearing, movesUntil = 0) {
      const wasAway = shown !== undefined && shown.state.name !== 'connected';
      shown = { state, hearing, movesUntil };
      if (state.name === 'connected' && state.since !== 'first' && wasAway) {
        caughtUp = 0;
        backUntil = performance.now() + BACK_MS;
      }
      paint();
    },
    back(caught) {
      caughtUp = caught;
      paint();
    },
  };
}

function set(id: string, text: string): void {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

function wordsOf(state: LinkState, hearing: Hearing, now: number): [status: string, rest: string] {
  switch (state.name) {
    case 'connecting':
      return ['Connecting…', ''];
    case 'connected': {
      if (hearing.name === 'offline') return [OFFLINE, `· nothing heard for ${seconds(hearing.heardMs)}`];
      if (hearing.name !== 'live') return ['Quiet', `for ${seconds(hearing.ms)}`];
      const { roundTripMs } = state.session.stats();
      const way = state.session.transport === 'http' ? ' over HTTP' : '';
      return [
        `Live${way}`,
        roundTripMs === undefined || roundTripMs > MAX_ROUND_TRIP_MS
          ? ''
          : `· ${number(Math.max(1, Math.round(roundTripMs)))}\u00a0ms`,
      ];
    }
    case 'suspended': {
      const { nextAttemptAt, suspendedUntil } = state.session;
      const kept = suspendedUntil === undefined ? '' : ` · session kept up to ${clock(suspendedUntil - now)}`;
      if (!navigator.onLine) return [OFFLINE, kept];
      return ['Offline', `· ${nextTry(nextAttemptAt, now)}${kept}`];
    }
    case 'moving':
      return [state.isTold ? 'Server shuts down…' : 'Offline', ''];
    case 'refused':
      return ['Refused', ''];
    case 'ended':
      return ['Closed', ''];
    case 'lost':
      return [navigator.onLine ? 'Offline' : OFFLINE, `· ${nextTry(state.retryAt, now)}`];
  }
}

/** @param at Unix milliseconds; `undefined` during an attempt. */
export function nextTry(at: number | undefined, now: number): string {
  return at === undefined ? 'trying now' : `next try in ${seconds(Math.max(1_000, at - now))}`;
}
