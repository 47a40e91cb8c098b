import { type ClientOptions, type ClientSession, connect, type SessionReset } from '@parlance/client';

/** A page that connects with a store, and lets its test look at the session. */

const query = new URLSearchParams(location.search);

const broken = {
  getItem: () => {
    throw new Error('the store is broken');
  },
  setItem: () => {
    throw new Error('the store is broken');
  },
  removeItem: () => {
    throw new Error('the store is broken');
  },
};

if (query.has('withoutLocks')) Object.defineProperty(navigator, 'locks', { value: undefined });

/** The calls of the test to the page. */
class TestPage {
  session: ClientSession | undefined;
  failure = '';
  readonly texts: string[] = [];
  readonly resets: SessionReset[] = [];
  readonly answers: string[] = [];
  /** Whether the browser took the page out of its back/forward cache. */
  isBack = false;

  async open(options: ClientOptions = {}): Promise<void> {
    const store = query.has('withoutStore') ? undefined : query.has('broken') ? broken : sessionStorage;
    const token = query.get('token') ?? undefined;
    const transports = query.get('transports')?.split(',') as ClientOptions['transports'];
    try {
      const session = await connect(query.get('server') ?? '', { store, token, transports, ...options });
      [this.session, this.failure] = [session, ''];
      session.on('reset', (event) => this.resets.push(event));
      void this.read(session);
    } catch (error) {
      this.failure = `${(error as { code?: string }).code}: ${error}`;
    }
  }

  async read(session: ClientSession): Promise<void> {
    while (session.state !== 'closed') {
      try {
        for await (const { text } of session) this.texts.push(text);
      } catch {
        // The session was lost, and another one follows.
      }
    }
    this.texts.push('the end');
  }

  ask(text: string): void {
    this.session?.request(text).then(
      (answer) => this.answers.push(answer.text),
      (error) => this.answers.push(String(error.code)),
    );
  }

  /** The parts of a reply, of which the page reads so many at most. */
  async stream(text: string, most = Infinity): Promise<readonly string[]> {
    const parts: string[] = [];
    for await (const part of this.session?.stream(text) ?? []) if (parts.push(part.text) >= most) break;
    return parts;
  }

  get state() {
    const { session, failure, texts, resets, answers, isBack } = this;
    const { id, isRebuilt, state, transport } = session ?? {};
    const entries = Object.keys(sessionStorage).map((key) => [key, sessionStorage.getItem(key)]);
    return { id, isRebuilt, state, transport, failure, texts, resets, answers, isBack, entries };
  }
}

declare global {
  interface Window {
    test: TestPage;
  }
}

window.test = new TestPage();
window.addEventListener('pageshow', (event) => {
  if (event.persisted) window.test.isBack = true;
});
if (query.has('server') && !query.has('later')) void window.test.open();
