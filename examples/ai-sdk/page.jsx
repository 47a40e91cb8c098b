import { Chat, useChat } from '@ai-sdk/react';
import { SessionChatTransport, sessionChats } from '@parlance/client/ai';
import { createRoot } from 'react-dom/client';

const transport = new SessionChatTransport({ url: 'ws://127.0.0.1:8767/session', store: 'session' });
const chats = sessionChats(transport, { Chat });

function Page() {
  const { messages, sendMessage, error } = useChat({ chat: chats.get('my-chat'), resume: true });
  return (
    <form action={(form) => void sendMessage({ text: form.get('text') })}>
      {messages.map(({ id, parts }) => (
        <p key={id}>{parts.map((part) => part.text)}</p>
      ))}
      <input name="text" /> {error?.message}
    </form>
  );
}
createRoot(document.body).render(<Page />);
