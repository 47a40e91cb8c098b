import { byId, descriptions } from './dom.js';
import { adviceFor } from './refusal.js';
import type { LinkState } from './session-link.js';

/** The box that says why there is no connection, what happens next, and what a person can do. */
export interface Notice {
  show(state: LinkState): void;
}

/** @param onRetry the person does not want to wait. */
export function createNotice(server: string, onRetry: () => void): Notice {
  const box = byId('notice');
  const title = byId('notice-title');
  const text = byId('notice-text');
  const facts = byId('notice-facts');
  const retry = byId<HTMLButtonElement>('retry');
  const countdown = byId('countdown');
  let ticking: ReturnType<typeof setInterval> | undefined;
  retry.addEventListener('click', onRetry);

  /** Outside of what is read aloud: a number that changes every second is no news. */
  function countDown(retryAt: number): void {
    const tick = () => {
      const seconds = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
      countdown.textContent = `The next try is in ${seconds} s.`;
    };
    tick();
    ticking = setInterval(tick, 250);
  }

  /** Text that is replaced by itself would be read aloud again at every attempt. */
  function say(heading: string, message: string): void {
    if (title.textContent !== heading) title.textContent = heading;
    if (text.textContent !== message) text.textContent = message;
  }

  return {
    show(state) {
      clearInterval(ticking);
      box.hidden = state.name === 'connecting' || state.name === 'connected';
      // The session comes back, or the next one begins, by itself; there is nothing that a person could do.
      byId('notice-retry').hidden = state.name === 'suspended' || state.name === 'moving';
      if (state.name === 'suspended') {
        say(
          'The connection is lost, the session is not',
          'This page comes back by itself. The server goes on with what it was asked meanwhile, and nothing of it will be missing.',
        );
        facts.replaceChildren();
      } else if (state.name === 'moving') {
        say(
          'This page moves to a new session',
          'The server is replaced, or has lost the session. This page goes on by itself in a moment; your next message sends the whole conversation anew.',
        );
        facts.replaceChildren();
      } else if (state.name === 'lost') {
        say(
          state.hadSession ? 'The connection is lost' : 'The server cannot be reached',
          state.hadSession
            ? 'The session has ended. What was said stays on this page: it connects by itself as soon as the server is back, and your next message sends the whole conversation anew, in a new session.'
            : `Nobody answers at ${server}. This page connects by itself as soon as a server is there.`,
        );
        facts.replaceChildren(
          ...descriptions([['Reason', state.error?.message ?? 'the server closed the session']]),
        );
      } else if (state.name === 'refused') {
        const { error } = state;
        say(
          error.reject === undefined ? 'No session came about' : 'The server refused this page',
          adviceFor(error, location.origin),
        );
        facts.replaceChildren(
          ...descriptions([
            ['Server', server],
            ['Code', error.reject?.code ?? error.code],
            ['It says', error.reject?.message ?? error.message],
          ]),
        );
      }
      if ('retryAt' in state && state.retryAt !== undefined) countDown(state.retryAt);
      else countdown.textContent = state.name === 'lost' ? 'Trying now…' : '';
      // Not `disabled`: the button would lose the focus at every attempt.
      retry.setAttribute('aria-disabled', String(state.name === 'lost' && state.retryAt === undefined));
    },
  };
}
