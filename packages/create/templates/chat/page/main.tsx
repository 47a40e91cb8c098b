import { useSession } from '@parlance/client/react';
import OpenAI from 'openai';
import { type FormEvent, StrictMode, useMemo, useRef, useState } from 'react';
import { createRoot } from 'react-dom/client';

interface Turn {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

function Chat() {
  const { session, status, secondsLeft, code, retry } = useSession('/session');
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [problem, setProblem] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const stopping = useRef<AbortController>(undefined);
  const openai = useMemo(
    () =>
      session &&
      new OpenAI({
        fetch: session.fetch,
        baseURL: 'http://session/v1', // no host is looked up: requests go over the session
        apiKey: 'unused', // the server has one
        dangerouslyAllowBrowser: true, // there is no key to steal
      }),
    [session],
  );

  async function ask(event: FormEvent<HTMLFormElement>): Promise<void> {
    event.preventDefault();
    const form = event.currentTarget;
    const content = String(new FormData(form).get('question')).trim();
    if (openai === undefined || content === '' || isBusy) return;
    form.reset();
    const asked: readonly Turn[] = [...turns, { role: 'user', content }];
    stopping.current = new AbortController();
    const { signal } = stopping.current;
    let answer = '';
    setTurns(asked);
    setProblem(undefined);
    setBusy(true);
    try {
      const [model] = (await openai.models.list({ signal })).data;
      const stream = await openai.chat.completions.create(
        { model: model?.id ?? '', messages: [...asked], stream: true },
        { signal },
      );
      for await (const { choices } of stream) {
        answer += choices[0]?.delta.content ?? '';
        setTurns([...asked, { role: 'assistant', content: answer }]);
      }
    } catch (error) {
      if (!signal.aborted) setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      setBusy(false);
    }
  }

  const light = status === 'reconnecting' ? `offline, ${secondsLeft ?? '…'} s left` : (code ?? status);
  return (
    <>
      <header>
        <h1>Chat</h1>
        <span role="status">{light}</span>
        {status === 'refused' || status === 'closed' ? (
          <button type="button" onClick={retry}>
            Connect again
          </button>
        ) : null}
      </header>
      {turns.map(({ role, content }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: turns are only added at the end
        <article key={index} className={role} dir="auto">
          {content}
        </article>
      ))}
      {problem === undefined ? null : <p role="alert">{problem}</p>}
      <form onSubmit={(event) => void ask(event)}>
        <input name="question" aria-label="Your message" placeholder="Ask anything" autoComplete="off" />
        {isBusy ? (
          <button type="button" onClick={() => stopping.current?.abort()}>
            Stop
          </button>
        ) : (
          <button type="submit">Ask</button>
        )}
      </form>
    </>
  );
}

const root = document.getElementById('root');
if (root !== null)
  createRoot(root).render(
    <StrictMode>
      <Chat />
    </StrictMode>,
  );
