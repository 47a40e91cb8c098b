/** Prepared answers, which show what a chat page can do with the text of a model. */

const MARKDOWN = `## Markdown, as it streams

Text can be **bold**, *slanted*, ~~struck out~~ or \`code\`. It can link to [the WebSocket protocol](https://www.rfc-editor.org/rfc/rfc6455), too.

1. A list counts its items.
2. An item can hold a list of its own:
   - like this one,
   - with two items.

> A quotation keeps to itself.

| What you send | JSON | on the socket |
| --- | ---: | ---: |
| the first question | 120 B | 96 B |
| the tenth, with the whole history | 9.1 kB | 130 B |

The table above has figures of a typical chat; those of *this* chat are in the panel.

---

هذه الجملة تُقرأ من اليمين إلى اليسار.`;

const DEBOUNCE = `Here is one that keeps the types of your function.

\`\`\`ts
export function debounce<Args extends unknown[]>(run: (...args: Args) => void, waitMs: number) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return (...args: Args): void => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...args), waitMs);
  };
}
\`\`\`

Call it once, and keep what it returns:

\`\`\`ts
const save = debounce((text: string) => localStorage.setItem('draft', text), 300);
input.addEventListener('input', () => save(input.value));
\`\`\`

| | runs | use it for |
| --- | --- | --- |
| debounce | after the last call | search fields, drafts |
| throttle | at most once in a while | scrolling, progress |

A leading call, a way to cancel, and \`this\` are left out: most callers need none of them.`;

const LOST_CONNECTION = `## How an answer survives a lost connection

You can test every sentence of this answer while it is being written: press **Cut the connection**, or switch off your network.

### What usually happens

A streamed answer is one long HTTP response. If the train enters a tunnel, the response ends wherever it was. The browser cannot ask for the rest, because HTTP has no name for “the rest”. So the page shows half an answer and a button, the button sends the whole conversation again, and the model writes, and bills, another answer from the beginning.

### What happens here

1. The answer belongs to a **session**, not to a connection. The session has an ID, and a token that only this page knows.
2. Every frame has a number. This page acknowledges what it has received, and the server keeps what is not acknowledged.
3. When the connection is lost, the server keeps the session for two minutes. The model continues, since it does not know about connections at all.
4. This page connects again and says: *“I have everything up to frame 41.”*
5. The server answers with frame 42. Nothing is missing, and nothing arrives twice.

\`\`\`text
page    ── HELLO  session sess_…, I have 41 frames ──▶  server
page    ◀── ACCEPT  it continues ────────────────────  server
page    ◀── 42, 43, 44 … at once ────────────────────  server
\`\`\`

### And if the page itself is gone?

Then the session waits as well. A page that is loaded again presents the same token and continues where the last one stopped. The text that you had read is still there; the text that was written meanwhile arrives at once.

### And if the server is replaced?

It stops taking new sessions, lets running answers finish, and sends every page away with a moment of its own to come back, so that they do not all arrive at the same time.

| What is lost | What you see | What is asked again |
| --- | --- | --- |
| the connection | a mark in the answer | nothing |
| the page | the answer continues | nothing |
| the server, in order | a new session after the answer | nothing |
| the server, by accident | half an answer | the question, if you press a button |

### What it costs

A few bytes for each acknowledgement, and memory for the frames that are on their way. In exchange, a long answer can be read in a train, on a phone that changes from one network to another, and behind a proxy that ends connections whenever it likes.

That was the last sentence. Count the marks above: each is a connection that was lost, and you have read every word.`;

/** Answers by the question that they belong to, which the chat page suggests. */
export const PREPARED: ReadonlyMap<string, string> = new Map([
  ['how does an answer survive a lost connection?', LOST_CONNECTION],
  ['write a debounce function in typescript.', DEBOUNCE],
  ['show me some markdown.', MARKDOWN],
]);
