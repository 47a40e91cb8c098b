import { Chat, useChat } from '@ai-sdk/react';
import type { ClientSession } from '@parlance/client';
import { SessionChatTransport } from '@parlance/client/ai';
import { createServer } from '@parlance/server';
import { chatHandler } from '@parlance/server/ai';
import {
  type ChatTransport,
  convertToModelMessages,
  createUIMessageStream,
  streamText,
  type UIMessage,
} from 'ai';

/** An application with version 7 of the AI SDK, which a test compiles and nothing runs. */

type Own = UIMessage<{ at: number }, { note: string }>;

export function Page({ session }: { session: Promise<ClientSession> }) {
  const transport: ChatTransport<Own> = new SessionChatTransport<Own>(session);
  useChat<Own>({ transport, resume: true });
  return new Chat<Own>({ transport });
}

createServer({
  onRequest: chatHandler<Own>(
    async ({ messages, signal }) =>
      streamText({ model: 'a/model', messages: await convertToModelMessages(messages), abortSignal: signal }),
    {
      stream: {
        onFinish: ({ responseMessage }) => void responseMessage.metadata?.at,
        messageMetadata: () => ({ at: 1 }),
      },
    },
  ),
});

createServer({
  onRequest: chatHandler(() =>
    createUIMessageStream({ execute: ({ writer }) => writer.write({ type: 'finish' }) }),
  ),
});
