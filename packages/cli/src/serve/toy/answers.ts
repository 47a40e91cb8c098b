/** Prepared answers, which show what a chat page can do with the text of a model. */

const COST = `## The cost of a long chat

A model remembers nothing between two questions. Each request therefore carries the *whole* conversation, so the tenth question is far larger than the first, although you wrote no more.

### In a formula

Let \\(a\\) be the bytes that one turn adds, question and answer together, and \\(q\\) those of a question alone. Request number \\(k\\) has \\(q + (k-1)\\,a\\) bytes, and all requests of \\(n\\) turns together have

\\[ S(n) = n\\,q + a\\,\\frac{n(n-1)}{2} \\]

That grows with the square of \\(n\\): twice as many turns take about four times as many bytes.

### In figures

With \\(a = 1{,}200\\) and \\(q = 100\\), which is a question of a line and an answer of a few paragraphs:

| Turns | Last request | All requests |
| ---: | ---: | ---: |
| 1 | 0.1 kB | 0.1 kB |
| 10 | 10.9 kB | 55 kB |
| 50 | 58.9 kB | 1.5 MB |
| 100 | 118.9 kB | 6.0 MB |

\`\`\`ts
const all = (n: number, a = 1_200, q = 100) => n * q + (a * n * (n - 1)) / 2;
console.log([1, 10, 50, 100].map((n) => all(n)));
\`\`\`

### Three ways to send less

1. **Compress each request.** gzip makes each request smaller, but starts from nothing each time.[^1]
2. **Keep the conversation at the server.** Then the server needs storage, users and deletion, and the API of the model stays as it is.
3. **Remember what was sent.** Both ends of this session keep the latest messages, and a request names the part that the other end has. The application still sends everything, and only what is new crosses the network.

This page does the third. To see it, ask three questions or more, and open the panel: it has the bytes of *this* chat, beside those of the same requests over HTTP with gzip.

[^1]: Its window is 32 KiB, so in a long request it does not find what stood further back.`;

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

/** Each question, as the chat page suggests it, with its answer. */
const ANSWERS = [
  ['How does an answer survive a lost connection?', LOST_CONNECTION],
  ['Write a debounce function in TypeScript.', DEBOUNCE],
  ['What does a long chat cost?', COST],
] as const;

export const QUESTIONS: readonly string[] = ANSWERS.map(([question]) => question);

/** Answers by their question in small letters. */
export const PREPARED: ReadonlyMap<string, string> = new Map(
  ANSWERS.map(([question, answer]) => [question.toLowerCase(), answer]),
);
