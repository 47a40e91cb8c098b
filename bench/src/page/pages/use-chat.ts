import { type UIMessage, useChat } from '@ai-sdk/react';
import { createElement, memo, useLayoutEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import Markdown from 'react-markdown';

/** A chat as the AI SDK's documentation writes one: `useChat` paints every 50 ms at most, and messages that do not change are kept. */

const Message = memo(({ role, text }: { role: string; text: string }) =>
  createElement('article', { className: role }, createElement(Markdown, null, text)),
);

function textOf({ parts }: UIMessage): string {
  return parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

function Chat() {
  const { messages, sendMessage, status } = useChat({ experimental_throttle: 50 });
  const [input, setInput] = useState('');
  useLayoutEffect(() => {
    const log = document.querySelector('main') as HTMLElement;
    log.scrollTop = log.scrollHeight;
    const isReady = status === 'ready';
    if (status === 'error') document.body.dataset['failed'] = '';
    document.body.dataset['done'] = String(
      messages.filter(({ role }) => role === 'assistant').length - (isReady ? 0 : 1),
    );
  });
  return createElement(
    'div',
    { style: { display: 'flex', flexDirection: 'column', height: '100vh' } },
    createElement(
      'main',
      { style: { flex: 1, overflow: 'auto' } },
      messages.map((message) => {
        const shown = { key: message.id, role: message.role, text: textOf(message) };
        return createElement(Message, shown);
      }),
    ),
    createElement(
      'form',
      {
        onSubmit(event: { preventDefault(): void }) {
          event.preventDefault();
          void sendMessage({ text: input });
          setInput('');
        },
      },
      createElement('input', {
        'aria-label': 'Your message',
        value: input,
        onChange: ({ target }: { target: HTMLInputElement }) => setInput(target.value),
      }),
    ),
  );
}

const root = document.createElement('div');
root.id = 'root';
document.body.append(root);
document.body.style.margin = '0';
createRoot(root).render(createElement(Chat));
