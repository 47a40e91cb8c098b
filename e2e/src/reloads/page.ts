import {
  type ClientSession,
  connect,
  type FollowedReply,
  loadEncoding,
  type ReplyStream,
} from '@parlance/client';

/**
 * A chat page whose answer survives a reload: it stores the text with the position of the last part that the text has,
 * and follows the reply from there when it is loaded again. It leaves its measurements for the test.
 */

/** The state that the page stores, and shows to the test. */
export interface Shown {
  readonly text: string;
  readonly position: number;
  readonly isComplete: boolean;
  readonly error: string | undefined;
}

interface PageControl {
  shown: Shown;
  /** The position from which this page has followed the reply. */
  readonly from: number;
  /** The page loads itself again at the first of these positions that it reaches. */
  reloadAt: readonly number[];
  /** Milliseconds from the `load` event to the first part that this page received. */
  firstPartAfterLoad: number | undefined;
  /** Stops the reply; resolves to Unix milliseconds before the call. */
  stop(): Promise<number>;
}

const query = new URLSearchParams(location.search);
const name = query.get('name') ?? '';
const stored = sessionStorage.getItem(name);
const before: Shown =
  stored === null ? { text: '', position: 0, isComplete: false, error: undefined } : JSON.parse(stored);

let reply: ReplyStream | FollowedReply | undefined;
let session: ClientSession | undefined;
const control: PageControl = {
  shown: before,
  from: before.position,
  reloadAt: [],
  firstPartAfterLoad: undefined,
  async stop() {
    const at = Date.now();
    await session?.follow(name).stop();
    return at;
  },
};
Object.assign(globalThis, { control });

const loaded = new Promise<number>((resolve) => {
  addEventListener('load', () => resolve(performance.now()));
});

function show(change: Partial<Shown>): void {
  control.shown = { ...control.shown, ...change };
  sessionStorage.setItem(name, JSON.stringify(control.shown));
}

async function run(): Promise<void> {
  const hasEncoding = query.get('encoding') !== null;
  if (hasEncoding) await loadEncoding('CL100K_BASE');
  session = await connect(query.get('server') ?? '', { token: query.get('token') ?? '' });
  // This loads the codec, after which the page gets token IDs and decodes characters that are split between parts.
  if (hasEncoding) await session.request('ready?', { algorithm: 'TOKEN_NATIVE' });
  const isNew = query.get('role') === 'asks' && stored === null;
  // Other tabs, and this one after a reload, follow the answer.
  if (isNew) show({});
  reply = isNew
    ? session.stream('go', { metadata: { name } })
    : session.follow(name, { after: before.position });
  for await (const part of reply) {
    if (control.firstPartAfterLoad === undefined) {
      const at = performance.now();
      control.firstPartAfterLoad = 0;
      void loaded.then((load) => {
        control.firstPartAfterLoad = Math.max(0, at - load);
      });
    }
    show({ text: control.shown.text + part.text, position: reply.position });
    if (control.reloadAt.includes(reply.position)) {
      location.reload();
      // Leaving the loop would cancel the reply.
      await new Promise(() => {});
    }
  }
  show({ isComplete: true });
}

if (!before.isComplete) {
  run().catch((error: { code?: string; message: string }) => {
    show({ error: `${error.code}: ${error.message}` });
  });
}
