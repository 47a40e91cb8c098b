import { visit } from './client.js';
import { serve } from './server.js';

/** `main.ts --listen PORT` serves, `main.ts --peer URL` visits, and `main.ts --http URL` over HTTP, until it is stopped. */
const [role, target = ''] = process.argv.slice(2);
if (role === '--listen') console.log((await serve(Number(target))).url);
else await visit(target, new AbortController().signal, role === '--http');
