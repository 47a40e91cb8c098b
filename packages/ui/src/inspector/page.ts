import type { InspectionEvent } from '@parlance/client/inspect';
import { create } from '../shared/dom.js';
import { enterToken, readToken } from '../shared/profile.js';
import { ParlanceInspector } from './element.js';
import type { OwnSession } from './own-session.js';
import { findChatPages, type Reading, readFeed, readFile } from './sources.js';

/** The page `/inspect`: one inspector, and what it watches. */

type Source =
  | { readonly kind: 'none' }
  | { readonly kind: 'page'; readonly page: string }
  | { readonly kind: 'own'; readonly session: Promise<OwnSession> }
  | { readonly kind: 'reading'; readonly name: string; readonly reading: Reading };

const inspector = new ParlanceInspector();
document.body.append(inspector);
const status = create('span', { className: 'status' });
const badge = create('span', { className: 'badge', hidden: true }, 'records content');
const leave = create('button', { type: 'button', hidden: true }, 'Watch another');
const ask = create('form', { className: 'ask', hidden: true });
const question = create('input', { type: 'text', placeholder: 'Send a request', autocomplete: 'off' });
const pageList = create('ul');
const noPage = create('p', { className: 'muted' }, 'None is open at this address.');
const refusal = create('p', { className: 'problem', hidden: true });
const tokenField = create(
  'label',
  { hidden: true },
  'Token ',
  create('input', { type: 'password', autocomplete: 'off' }),
);
let source: Source = { kind: 'none' };

const add = (events: readonly InspectionEvent[]) => inspector.add(events);
const pages = findChatPages(showPages, (events) => {
  if (source.kind === 'page') add(events);
});

status.setAttribute('role', 'status');
badge.title = 'Credentials are masked. Everything that was said is recorded.';
question.ariaLabel = 'Request';
ask.append(question, create('button', { type: 'submit' }, 'Send'));
ask.addEventListener('submit', (event) => {
  event.preventDefault();
  void send();
});
leave.addEventListener('click', () => {
  history.replaceState(null, '', location.pathname);
  watch({ kind: 'none' }, '');
  inspector.clear();
});
inspector.source.append(status, badge, ask, leave);
inspector.onOpen = (file) => {
  inspector.clear();
  const reading = readFile(file, add);
  watch({ kind: 'reading', name: file.name, reading }, `Reading ${file.name} …`);
  tellEnd(reading, (end) => `${file.name}: ${end}`);
};
inspector.welcome.append(...welcome());
window.addEventListener('hashchange', followAddress);
showPages();
followAddress();

/** Watches what the fragment names: a chat page and one of its answers, or a command. */
function followAddress(): void {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const [page, reply, key] = ['page', 'reply', 'key'].map((name) => fragment.get(name));
  if (page) {
    watchPage(page);
    if (reply) inspector.find(({ direction, fields }) => direction === 'sent' && hasValue(fields, reply));
  } else if (key) {
    inspector.clear();
    const reading = readFeed(key, add);
    watch({ kind: 'reading', name: 'command', reading }, 'parlance connect', true);
    tellEnd(reading, (end) => end);
  }
}

function hasValue(
  fields: readonly { readonly value?: unknown; readonly children?: readonly object[] | undefined }[],
  value: string,
): boolean {
  return fields.some(
    (field) => field.value === value || (field.children !== undefined && hasValue(field.children, value)),
  );
}

function watchPage(page: string): void {
  if (source.kind === 'page' && source.page === page) return;
  inspector.clear();
  watch({ kind: 'page', page }, titleOf(page), true);
  pages.watch(page);
}

function titleOf(page: string): string {
  const found = pages.all.find((each) => each.page === page);
  return found === undefined ? 'Chat page' : `Chat: ${found.title}`;
}

/** @param isLive whether something is being recorded. */
function watch(next: Source, text: string, isLive = false): void {
  const last = source;
  source = next;
  if (last.kind === 'page' && next.kind !== 'page') pages.unwatch();
  if (last.kind === 'reading') last.reading.stop();
  if (last.kind === 'own') void last.session.then((session) => session.close()).catch(() => {});
  status.textContent = text;
  inspector.isLive = isLive;
  badge.hidden = !isLive;
  leave.hidden = next.kind === 'none';
  ask.hidden = next.kind !== 'own';
  document.title = text === '' ? 'Parlance inspector' : `${text} · Parlance inspector`;
}

function tellEnd(reading: Reading, describe: (end: string) => string): void {
  void reading.done.then((end) => {
    if (source.kind !== 'reading' || source.reading !== reading) return;
    watch({ ...source, reading: { ...reading, stop() {} } }, describe(end));
  });
}

function showPages(): void {
  const buttons = pages.all.map(({ page, title }) => {
    const open = create('button', { type: 'button' }, title);
    open.addEventListener('click', () => {
      history.replaceState(null, '', `#${new URLSearchParams({ page })}`);
      watchPage(page);
    });
    return create('li', {}, open);
  });
  pageList.replaceChildren(...buttons);
  noPage.hidden = buttons.length > 0;
  if (source.kind !== 'page') return;
  const { page } = source;
  const isThere = pages.all.some((each) => each.page === page);
  status.textContent = isThere ? titleOf(page) : 'The chat page is closed, or was loaded again';
  inspector.isLive = isThere;
  badge.hidden = !isThere;
}

// --- a session of its own

async function openOwn(): Promise<void> {
  const typed = tokenField.querySelector('input')?.value ?? '';
  if (typed !== '') enterToken(typed);
  refusal.hidden = true;
  inspector.clear();
  const url = new URL('/session', location.href.replace(/^http/, 'ws')).href;
  const session = import('./own-session.js').then(({ openOwnSession }) =>
    openOwnSession(url, readToken(), (event) => {
      if (source.kind === 'own' && source.session === session) add([event]);
    }),
  );
  watch({ kind: 'own', session }, 'A session of this page', true);
  try {
    await session;
    question.focus();
  } catch (error) {
    if (source.kind !== 'own' || source.session !== session) return;
    const { code, closeCode, message } = error as { code?: string; closeCode?: number; message?: string };
    watch({ kind: 'none' }, '');
    inspector.clear();
    refusal.hidden = false;
    refusal.textContent = `The session could not be opened. ${message ?? String(error)}${code === undefined ? '' : ` (${code})`}`;
    tokenField.hidden = closeCode !== UNAUTHENTICATED;
  }
}

const UNAUTHENTICATED = 4401;

async function send(): Promise<void> {
  const text = question.value;
  if (source.kind !== 'own' || text.trim() === '') return;
  const { session } = source;
  question.value = '';
  // The frames show what became of it.
  await session.then((opened) => opened.ask(text)).catch(() => {});
}

// --- what is shown before anything is watched

function welcome(): HTMLElement[] {
  const card = (title: string, ...content: (Node | string)[]) =>
    create('section', { className: 'card' }, create('h3', {}, title), ...content);
  const link = create('a', { href: './', target: '_blank', rel: 'opener' }, 'Open a chat page');
  const own = create('form', {}, tokenField, create('button', { type: 'submit' }, 'Open a session'), refusal);
  own.addEventListener('submit', (event) => {
    event.preventDefault();
    void openOwn();
  });
  const choose = create('button', { type: 'button' }, 'Choose a file');
  choose.addEventListener('click', () =>
    inspector.querySelector<HTMLInputElement>('input[type=file]')?.click(),
  );
  return [
    create('h2', {}, 'Look inside a session'),
    create(
      'p',
      { className: 'lead' },
      'Every frame on the wire, what each byte means, and what the codecs have saved. Credentials are masked, and nothing leaves this machine.',
    ),
    create(
      'div',
      { className: 'cards' },
      card(
        'A chat page',
        create('p', {}, 'Watches a chat in this browser, with what it has already sent.'),
        pageList,
        noPage,
        link,
      ),
      card('A session of its own', create('p', {}, 'Connects to this server, and sends what you type.'), own),
      card(
        'A capture',
        create(
          'p',
          {},
          'Opens what an inspector has saved, or the output of ',
          create('code', {}, 'parlance connect --json'),
          '. Drop the file here, or choose it.',
        ),
        choose,
      ),
    ),
  ];
}
