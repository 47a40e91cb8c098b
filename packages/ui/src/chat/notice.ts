import type { ProtocolError, SessionEnd } from '@parlance/client';
import { byId, descriptions } from '../shared/dom.js';
import { clock } from '../shared/format.js';
import { enterToken, isOwn } from '../shared/profile.js';
import { BLOCKED, type LinkState } from './session-link.js';

/** Explains why there is no connection, what happens next, and what the user can do. */
export interface Notice {
  show(state: LinkState): void;
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
  let ticking: ReturnType<typeof setInterval> | undefined;
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
  function tick(describe: () => string): void {
    const show = () => {
      countdown.textContent = describe();
    };
    show();
    ticking = setInterval(show, 250);
  }

  /** Changes the text only if it differs, as screen readers would read it again at every attempt. */
  function setText(heading: string, message: string): void {
    if (title.textContent !== heading) title.textContent = heading;
    if (text.textContent !== message) text.textContent = message;
  }

  return {
    show(state) {
      clearInterval(ticking);
      countdown.textContent = '';
      facts.replaceChildren();
      box.hidden = state.name === 'connecting' || state.name === 'connected';
      tokenForm.hidden = true;
      byId('notice-retry').hidden = false;
      // With `disabled`, the button would lose the focus at every attempt.
      retry.setAttribute('aria-disabled', String(state.name === 'lost' && state.retryAt === undefined));
      retry.textContent = state.name === 'ended' ? 'Connect again' : 'Try now';
      if (state.name === 'suspended') {
        setText(
          'Connection lost.',
          isAnswering()
            ? 'If the server is up, it continues writing. This page reconnects.'
            : 'This page reconnects.',
        );
        const until = state.session.suspendedUntil;
        if (until !== undefined)
          tick(() => `A server that is up keeps the session for ${clock(until - Date.now())}`);
      } else if (state.name === 'moving') {
        setText(...movingTexts(state.isTold));
      } else if (state.name === 'ended') {
        showEnd(state.end);
      } else if (state.name === 'lost') {
        setText(...lostTexts(state, server));
        facts.append(...descriptions([['Reason', state.reason]]));
        if (state.retryAt === undefined) countdown.textContent = 'Trying now…';
      } else if (state.name === 'refused') {
        showRefusal(state.error);
      }
      if ('retryAt' in state && state.retryAt !== undefined) {
        const { retryAt } = state;
        tick(() => `Next attempt in ${Math.max(0, Math.ceil((retryAt - Date.now()) / 1000))} s.`);
      }
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
    setText(
      error.reject === undefined ? 'No session could be opened' : 'The server refused this page',
      adviceFor(error, location.origin),
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
      return 'There are too many sessions or attempts from your address or of your account. This page waits and then tries again by itself.';
    case 'SERVER_BUSY':
      return 'The server cannot take this session at present. This page tries again by itself.';
    case undefined:
      return adviceForFailure(error);
    default:
      return 'Ask the operator of the server; the code below states the reason.';
  }
}

const UNAUTHENTICATED = 4401;
/** As the admin port says it. */
const CLOSED_BY_OPERATOR = 'closed_by_operator';

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
