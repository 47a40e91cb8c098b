import { connect } from '@parlance/client';
import { server, show } from './shown.js';

const session = await connect(server);
const question = { model: 'page', messages: [{ role: 'user', content: 'why is the sky blue?' }] };
show((await session.request(question)).text);
for await (const part of session.stream(question)) show(part.text);
