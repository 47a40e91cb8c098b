import { type ChildProcess, fork } from 'node:child_process';
import { type AgentChange, type Agents, connect, type Message, type Session } from '@parlance/client';
import { isProtocolError } from '@parlance/protocol';
import { createServer } from '@parlance/server';
import { MODELS, type ModelName } from './models.js';
import { story } from './story.js';

/**
 * `npm run agents`: a planner and two workers with different models and vocabularies. Their server routes
 * messages without reading them.
 */

const workers = new Map<string, ChildProcess>();

function startWorker(url: string, name: string, model: ModelName): void {
  const worker = fork(new URL('./worker.ts', import.meta.url), [url, name, model]);
  workers.set(name, worker);
}

/** Waits for a matching change and prints every change until then. */
async function until(
  changes: AsyncIterator<AgentChange>,
  matches: (change: AgentChange) => boolean,
): Promise<void> {
  for (;;) {
    const { value, done } = await changes.next();
    if (done === true) throw new Error('the directory has no more changes');
    const { type, agent } = value as AgentChange;
    story.line('server', `${agent.id} ${type === 'joined' || type === 'left' ? type : `is ${agent.state}`}`);
    if (matches(value)) return;
  }
}

async function findWorkers(agents: Agents): Promise<void> {
  for (const { id, metadata, encodings, compatibility } of agents.list) {
    const way = compatibility.mode === 'latent' ? 'hidden states' : 'text only';
    story.line('planner', `sees ${id}: ${metadata['skill']}, ${metadata['model']}, ${encodings} → ${way}`);
  }
  const modes = ['lena', 'otto'].map((id) => agents.get(id)?.compatibility.mode);
  story.expect('has the same model as lena, and a different one from otto', modes.join() === 'latent,json');
}

async function askForFactors(planner: Session, to: string, factor: number): Promise<string> {
  story.line('planner', `asks ${to} for the factors of ${factor}`);
  story.begin(to, '');
  let text = '';
  for await (const part of planner.stream({ factor }, { to })) {
    story.more(part.text);
    text += part.text;
  }
  story.end();
  return text;
}

/** Shares a hidden state: as a tensor if the other model can read it, else as JSON. */
async function share(
  planner: Session,
  agents: Agents,
  to: string,
  replies: AsyncIterator<Message>,
): Promise<void> {
  const state = Float32Array.from({ length: MODELS.alpaca.identity.hiddenDim }, (_, i) => Math.sin(i) / 8);
  const isLatent = agents.get(to)?.compatibility.mode === 'latent';
  const before = planner.stats().sent.wireBytes;
  if (isLatent) {
    const shape = [state.length];
    await planner.sendTensor({ data: state, shape, dtype: 'float32', payloadType: 'hidden_state' }, { to });
  } else {
    await planner.send({ state: [...state] }, { to });
  }
  const sent = planner.stats().sent.wireBytes - before;
  const form = isLatent ? 'a tensor' : 'JSON';
  story.line('planner', `sends ${to} its hidden state as ${form}: ${sent.toLocaleString('en-US')} bytes`);
  const { value } = await replies.next();
  const { length, as } = (value as Message).json<{ length: number; as: string }>();
  story.line(
    to,
    `received it as ${as === 'tensor' ? 'a tensor' : as}: the norm of its vector is ${length.toFixed(3)}`,
  );
  const isRight = (value as Message).from === to && Math.abs(length - Math.hypot(...state)) < 1e-9;
  story.expect(`${to} has exactly the same numbers`, isRight);
}

/** A worker dies in the middle of an answer and is replaced by a new one with the same name. */
async function loseWorker(planner: Session, url: string, changes: AsyncIterator<AgentChange>): Promise<void> {
  const factor = 2 ** 40;
  story.line('planner', `asks lena for the factors of ${factor}`);
  const killed = workers.get('lena') as ChildProcess;
  let parts = 0;
  try {
    for await (const _ of planner.stream({ factor }, { to: 'lena' })) {
      if (++parts !== 5) continue;
      killed.kill('SIGKILL');
      story.line('server', 'the process of lena is killed during the answer');
      await until(changes, ({ agent, type }) => agent.id === 'lena' && type === 'suspended');
      startWorker(url, 'lena', 'alpaca');
      await until(changes, ({ agent }) => agent.id === 'lena' && agent.state === 'connected');
    }
    story.expect('the answer is interrupted', false);
  } catch (error) {
    if (!isProtocolError(error)) throw error;
    story.line('planner', `gets the error ${error.code}: ${error.message}`);
    story.expect(
      'the planner does not mistake a broken answer for a complete one',
      error.code === 'peer_gone',
    );
  }
}

/** A worker that does not start or answer must not keep the reader waiting forever. */
setTimeout(() => {
  console.error('the example takes too long');
  process.exit(1);
}, 60_000).unref();

const server = createServer({
  encodings: ['CL100K_BASE', 'O200K_BASE'],
  // A real server verifies a token; here the token is the agent's name.
  authenticate: ({ token }) => (token === undefined ? null : { principal: 'team', agentId: token }),
});
const { url } = await server.listen();

try {
  story.title('Three agents with two models, connected by one server');
  story.chapter('The directory');
  const planner = await connect(url, {
    token: 'planner',
    encodings: [MODELS.alpaca.encoding],
    agent: { metadata: { skill: 'plans' } },
    avp: { identity: MODELS.alpaca.identity },
  });
  const agents = await planner.agents();
  const changes = agents[Symbol.asyncIterator]();
  startWorker(url, 'lena', 'alpaca');
  await until(changes, ({ agent }) => agent.id === 'lena');
  startWorker(url, 'otto', 'heron');
  await until(changes, ({ agent }) => agent.id === 'otto');
  await findWorkers(agents);

  story.chapter('A streamed answer');
  story.expect(
    'correct',
    (await askForFactors(planner, 'lena', 360_360)) === '360360 = 2 × 2 × 2 × 3 × 3 × 5 × 7 × 11 × 13',
  );
  story.expect(
    'correct in another vocabulary too',
    (await askForFactors(planner, 'otto', 1001)) === '1001 = 7 × 11 × 13',
  );

  story.chapter('A hidden state, shared as a tensor if the models allow it');
  const replies = planner[Symbol.asyncIterator]();
  await share(planner, agents, 'lena', replies);
  await share(planner, agents, 'otto', replies);

  story.chapter('A worker is lost and replaced');
  await loseWorker(planner, url, changes);
  story.expect('the new lena answers', (await askForFactors(planner, 'lena', 97 * 89)) === '8633 = 89 × 97');

  const { forwarded, recoded } = server.relayStats();
  story.chapter('The work of the server');
  story.line(
    'server',
    `${forwarded} bodies forwarded unchanged, ${recoded} re-encoded for another vocabulary or context`,
  );
  await planner.close();
} finally {
  for (const worker of workers.values()) worker.kill('SIGKILL');
  await server.close();
}
story.close();
process.exitCode = story.failures === 0 ? 0 : 1;
