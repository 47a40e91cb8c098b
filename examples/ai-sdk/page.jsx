import { useChat } from '@ai-sdk/react';
import { SessionChatTransport } from '@parlance/client/ai';
import { createRoot } from 'react-dom/client';

const transport = new SessionChatTransport({ url: 'ws://127.0.0.1:8767/session', store: sessionStorage });

function Chat() {
  const { messages, sendMessage } = useChat({ id: 'my-chat', transport, resume: true });
  return (
    <form action={(form) => void sendMessage({ text: form.get('text') })}>
      {messages.map(({ id, parts }) => (
        <p key={id}>{parts.map((part) => part.text)}</p>
      ))}
      <input name="text" />
    </form>
  );
}
createRoot(document.body).render(<Chat />);
