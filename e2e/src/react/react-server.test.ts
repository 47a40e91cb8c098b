import type { ClientOptions } from '@parlance/client';
import { type SessionSource, useAgents, useReply, useSession, useStream } from '@parlance/client/react';
import { createElement, type ReactNode, StrictMode, Suspense } from 'react';
import { renderToString } from 'react-dom/server';
import { expect, it } from 'vitest';

/** Rendering on a server. The browser tests take over what it renders. */

let opened = 0;
class WebSocket {
  constructor() {
    opened++;
  }
}
const options = { WebSocket: WebSocket as unknown as NonNullable<ClientOptions['WebSocket']> };

function Component({ source }: { readonly source: SessionSource | undefined }): ReactNode {
  const { session, status, secondsLeft, code } = useSession(source, options);
  const stream = useStream(session);
  const reply = useReply(session, 'a-reply', { initial: 0, read: (count) => count + 1 });
  const agents = useAgents(session);
  const seen = [session, status, secondsLeft, code, stream.status, stream.value, reply.status, reply.value];
  return JSON.stringify([...seen, agents.status, agents.list]).replaceAll('"', '');
}

const rendered = (source: SessionSource | undefined) => {
  const component = createElement(Component, { source });
  return renderToString(createElement(StrictMode, null, createElement(Suspense, null, component)));
};

it('opens no connection', async () => {
  const rest = 'null,null,idle,,idle,0,loading,[]]';
  expect(rendered('ws://127.0.0.1:1/session')).toContain(`[null,connecting,${rest}`);
  expect(rendered(() => Promise.reject(new Error('was called')))).toContain(`[null,connecting,${rest}`);
  expect(rendered(undefined)).toContain(`[null,idle,${rest}`);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(opened).toBe(0);
});
