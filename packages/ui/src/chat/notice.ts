import type { ProtocolError, SessionEnd } from '@parlance/client';
import { byId, descriptions } from '../shared/dom.js';
import { clock } from '../shared/format.js';
import { enterToken, isOwn } from '../shared/profile.js';
import { createAttempts } from './attempts.js';

import { BLOCKED, type LinkState } from './session-link.js';
import { nextTry, OFFLINE } from './status.js';

/** Explains why there is no connection, what happens next, and what the user can do. */
export interface Notice {
  /** @param movesUntil until when another connection may take over, in Unix milliseconds; 0 if none does. */
  show(state: LinkState, movesUntil: number): void;
  /** Shows how much time is left. @param now Unix milliseconds. */
  tick(now: number): void;
}

export interface NoticeEvents {
  /** The user wants to retry at once. */
  onRetry(): void;
  /** The user has entered a token. */
  onToken(): void;
  isAnswering(): boolean;
}

export function createNotice(server: string, { onRetry, onToken, isAnswering }: NoticeEvents): Notice {
  const box = byId('notice');
  const title = byId('notice-title');
  const text = byId('notice-text');
  const facts = byId('notice-facts');
  const retry = byId<HTMLButtonElement>('retry');
  const countdown = byId('countdown');
  const tokenForm = byId<HTMLFormElement>('token-form');
  const tokenField = byId<HTMLInputElement>('token');
  const attempts = createAttempts();
  let shown: LinkState = { name: 'connecting' };
  let quietUntil = 0;
  retry.addEventListener('click', () => {
    // A suspended session connects at once when the network comes back.
    window.dispatchEvent(new Event('online'));
    onRetry();
  });
  tokenForm.addEventListener('submit', (event) => {
    event.preventDefault();
    const token = tokenField.value.trim();
    if (token === '') return;
    tokenField.value = '';
    enterToken(token);
    onToken();
    onRetry();
    byId('question').focus();
  });

  /** The countdown is outside the alert, so that screen readers do not read it every second. */
  function tick(now: number): void {
    const told = timeLeft(now);
    if (countdown.textContent !== told) countdown.textContent = told;
  }

  function timeLeft(now: number): string {
    if (shown.name === 'suspended') {
      const { session } = shown;
      box.hidden = now < quietUntil;
      const isRefused = attempts.look(session.nextAttemptAt, now);
      setText(...suspendedTexts(server, isAnswering(), isRefused));
      const until = session.suspendedUntil;
      const kept = until === undefined ? '' : clock(until - now);
      if (isRefused) return `${sentence(nextTry(session.nextAttemptAt, now))} Session kept up to ${kept}.`;
      return kept && `A server that is up keeps the session for ${kept}`;
    }
    if (shown.name !== 'lost' && (shown.name !== 'refused' || shown.retryAt === undefined)) return '';
    return sentence(nextTry(shown.retryAt, now));
  }

  /** Changes the text only if it differs, as screen readers would read it again at every attempt. */
  function setText(heading: string, message: string): void {
    if (title.textContent !== heading) title.textContent = heading;
    if (text.textContent !== message) text.textContent = message;
  }

  return {
    tick,
    show(state, movesUntil) {
      shown = state;
      facts.replaceChildren();
      quietUntil = movesUntil;
      box.hidden = state.name === 'connecting' || state.name === 'connected';
      tokenForm.hidden = true;
      byId('notice-retry').hidden = false;
      // With `disabled`, the button would lose the focus at every attempt.
      retry.setAttribute('aria-disabled', String(state.name === 'lost' && state.retryAt === undefined));
      retry.textContent = state.name === 'ended' ? 'Connect again' : 'Try now';
      if (state.name === 'suspended') {
        attempts.begin();
      } else if (state.name === 'moving') {
        setText(...movingTexts(state.isTold));
      } else if (state.name === 'ended') {
        showEnd(state.end);
      } else if (state.name === 'lost') {
        setText(...lostTexts(state, server));
        facts.append(...descriptions([['Reason', state.reason]]));
      } else if (state.name === 'refused') {
        showRefusal(state.error);
      }
      tick(Date.now());
    },
  };

  function showEnd({ code, reason }: SessionEnd): void {
    setText(
      'The server closed this session',
      code === CLOSED_BY_OPERATOR
        ? 'An operator of the server has closed it. This page does not reconnect by itself.'
        : 'It does not want this page back, so this page does not reconnect by itself.',
    );
    facts.append(
      ...descriptions([
        ['Code', code ?? 'none'],
        ['Reason', reason || 'none'],
      ]),
    );
  }

  function showRefusal(error: ProtocolError): void {
    if (isOwn(server) && error.closeCode === UNAUTHENTICATED) {
      setText(
        'This server asks for a token',
        'It is what the server was started with in PARLANCE_TOKEN. It stays in this tab.',
      );
      tokenForm.hidden = false;
      byId('notice-retry').hidden = true;
      tokenField.focus();
      return;
    }
    if (error.cause === BLOCKED) {
      setText(
        'This page may not connect there',
        `It was served by ${location.host}, and its security policy lets it connect to that server alone. Open the page of the other server, or this one without “?server=”.`,
      );
      facts.append(...descriptions([['Server', server]]));
      byId('notice-retry').hidden = true;
      return;
    }
    setText(error.reject === undefined ? 'No session could be opened' : 'The server refused this page', '');
    import('./advice.js').then(
      ({ adviceFor }) => {
        if (shown.name === 'refused' && shown.error === error)
          text.textContent = adviceFor(error, error.closeCode === UNAUTHENTICATED);
      },
      // The facts say the reason.
      (failure: unknown) => console.info('what to do about a refusal could not be loaded:', failure),
    );
    facts.append(
      ...descriptions([
        ['Server', server],
        ['Code', error.reject?.code ?? error.code],
        ['Message', error.reject?.message ?? error.message],
      ]),
    );
  }
}

const UNAUTHENTICATED = 4401;
/** As the admin port says it. */
const CLOSED_BY_OPERATOR = 'closed_by_operator';

function suspendedTexts(
  server: string,
  isAnswering: boolean,
  isRefused: boolean,
): [title: string, text: string] {
  if (!isRefused)
    return [
      navigator.onLine ? 'Connection lost.' : `${OFFLINE}.`,
      `${isAnswering ? 'If the server is up, it continues writing. ' : ''}This page reconnects.`,
    ];
  return [
    'No server answers.',
    `Attempts to connect to ${new URL(server).host} fail at once. ${isAnswering ? 'The answer continues if a server comes back that has kept the session.' : 'This page keeps trying.'}`,
  ];
}

/** Begins with a capital and ends with a full stop. */
function sentence(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}

function movingTexts(isTold: boolean): [title: string, text: string] {
  if (!isTold)
    return [
      'Connection lost.',
      'It was lost for longer than the server keeps a session. This page connects as soon as it can; the next question sends the conversation once more.',
    ];
  return [
    'The server has said that it shuts down.',
    'This page connects to the next one as soon as it can. The next question sends the conversation once more.',
  ];
}

function lostTexts(
  { hadSession, isClosed }: { readonly hadSession: boolean; readonly isClosed: boolean },
  server: string,
): [title: string, text: string] {
  if (!hadSession)
    return [
      'The server cannot be reached',
      `There is no answer from ${server}. This page connects as soon as a server is there.`,
    ];
  return [
    isClosed ? 'The server closed the session' : 'Connection lost',
    'The session has ended. The conversation stays on this page, which connects again as soon as a server answers.',
  ];
}
