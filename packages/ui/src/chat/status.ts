import { byId } from '../shared/dom.js';
import { duration } from '../shared/format.js';
import type { LinkState } from './session-link.js';
import type { Hearing } from './silence.js';

/** Says in the head how the connection is. */
export function showStatus(state: LinkState, hearing: Hearing): void {
  const isUnknown = state.name === 'connected' && hearing.name === 'unknown';
  byId('status').textContent = statusOf(state, hearing);
  byId('silent-for').textContent = isUnknown ? `for ${duration(hearing.ms)}` : '';
}

function statusOf(state: LinkState, { name }: Hearing): string {
  switch (state.name) {
    case 'connecting':
      return 'Connecting…';
    case 'connected':
      if (name === 'unknown') return 'Silent';
      if (name === 'waiting') return 'Waiting for an answer';
      return `${state.since === 'first' ? 'Connected' : 'Reconnected'}${state.session.transport === 'http' ? ' over HTTP' : ''}`;
    case 'suspended':
      return 'Reconnecting…';
    case 'moving':
      return state.isTold ? 'Server shuts down…' : 'Reconnecting…';
    case 'refused':
      return 'Refused';
    case 'ended':
      return 'Closed';
    case 'lost':
      return state.hadSession ? 'Connection lost' : 'No server';
  }
}
