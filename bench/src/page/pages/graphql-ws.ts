import { createClient } from 'graphql-ws';
import { server, show } from './shown.js';

const client = createClient({ url: server });
for await (const { data } of client.iterate<{ said: string }>({ query: 'subscription { said }' }))
  show(data?.said ?? '');
