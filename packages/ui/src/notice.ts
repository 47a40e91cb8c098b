import type { ProtocolError } from '@parlance/client';
import { byId, descriptions } from './dom.js';
import type { LinkState } from './session-link.js';

/** Explains why there is no connection, what happens next, and what the user can do. */
export interface Notice {
  show(state: LinkState): void;
}

/** @param onRetry called when the user wants to retry at once. */
export function createNotice(server: string, onRetry: () => void): Notice {
  const box = byId('notice');
  const title = byId('notice-title');
  const text = byId('notice-text');
  const facts = byId('notice-facts');
  const retry = byId<HTMLButtonElement>('retry');
  const countdown = byId('countdown');
  let ticking: ReturnType<typeof setInterval> | undefined;
  retry.addEventListener('click', onRetry);

  /** The countdown is outside the alert, so that screen readers do not read it every second. */
  function countDown(retryAt: number): void {
    const tick = () => {
      const seconds = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
      countdown.textContent = `Next attempt in ${seconds} s.`;
    };
    tick();
    ticking = setInterval(tick, 250);
  }

  /** Changes the text only if it differs, as screen readers would read it again at every attempt. */
  function setText(heading: string, message: string): void {
    if (title.textContent !== heading) title.textContent = heading;
    if (text.textContent !== message) text.textContent = message;
  }

  return {
    show(state) {
      clearInterval(ticking);
      box.hidden = state.name === 'connecting' || state.name === 'connected';
      // The session reconnects by itself, so there is nothing that the user could do.
      byId('notice-retry').hidden = state.name === 'suspended' || state.name === 'moving';
      if (state.name === 'suspended') {
        setText(
          'Connection lost, session kept',
          'This page reconnects by itself. The server continues with the answer, and nothing will be missing.',
        );
        facts.replaceChildren();
      } else if (state.name === 'moving') {
        setText(
          'Moving to a new session',
          'The server is being replaced, or has lost the session. This page reconnects by itself in a moment; your next message sends the whole conversation again.',
        );
        facts.replaceChildren();
      } else if (state.name === 'lost') {
        setText(
          state.hadSession ? 'Connection lost' : 'The server cannot be reached',
          state.hadSession
            ? 'The session has ended. The conversation stays on this page, which reconnects as soon as the server is back. Your next message sends the whole conversation again, in a new session.'
            : `There is no answer from ${server}. This page connects as soon as a server is there.`,
        );
        facts.replaceChildren(
          ...descriptions([['Reason', state.error?.message ?? 'the server closed the session']]),
        );
      } else if (state.name === 'refused') {
        const { error } = state;
        setText(
          error.reject === undefined ? 'No session could be opened' : 'The server refused this page',
          adviceFor(error, location.origin),
        );
        facts.replaceChildren(
          ...descriptions([
            ['Server', server],
            ['Code', error.reject?.code ?? error.code],
            ['Message', error.reject?.message ?? error.message],
          ]),
        );
      }
      if ('retryAt' in state && state.retryAt !== undefined) countDown(state.retryAt);
      else countdown.textContent = state.name === 'lost' ? 'Trying now…' : '';
      // With `disabled`, the button would lose the focus at every attempt.
      retry.setAttribute('aria-disabled', String(state.name === 'lost' && state.retryAt === undefined));
    },
  };
}

/** Tells the user what to do about a refused session. */
function adviceFor(error: ProtocolError, origin: string): string {
  switch (error.reject?.code) {
    case 'SECURITY_POLICY':
      return error.closeCode === UNAUTHENTICATED
        ? 'The server requires credentials, and this page has none.'
        : `The server does not admit pages from ${origin}. Its operator can add that address to the “origins” option, or you can open the page at the server’s own address.`;
    case 'NO_COMMON_ALGORITHM':
      return 'This page and the server have no codec in common. The operator of the server can enable one that this page offers.';
    case 'VERSION_MISMATCH':
      return 'This page and the server use different versions of the protocol. Update the older one.';
    case 'RATE_LIMITED':
      return 'Too many connections from your address. This page waits a little and then tries again by itself.';
    case 'SERVER_BUSY':
      return 'The server is full or shutting down. This page tries again by itself.';
    case undefined:
      return adviceForFailure(error);
    default:
      return 'Ask the operator of the server; the code below states the reason.';
  }
}

const UNAUTHENTICATED = 4401;

function adviceForFailure(error: ProtocolError): string {
  switch (error.code) {
    case 'invalid_option':
      return 'This address is not valid. A valid one looks like ?server=ws://127.0.0.1:8765/session.';
    case 'codec_not_loaded':
    case 'vocabulary_unavailable':
    case 'vocabulary_mismatch':
      return 'A part of this page could not be loaded. Check your connection, then reload the page.';
    default:
      return 'The server answered in a way that this page does not understand. Is it a Parlance server of the same version?';
  }
}
