import { connect } from '@parlance/client';
import { tokenFor } from './identity.js';
import { settings } from './settings.js';

const session = await connect(settings.url, {
  token: tokenFor('planner', settings.secret),
  waitForServer: true,
});
const { list } = await session.agents();
const worker = list.find(({ metadata }) => metadata['skill'] === 'factors');
if (worker === undefined) {
  console.log('No agent factors numbers: start one with `npm run worker`.');
  process.exitCode = 1;
} else {
  const number = process.argv[2] ?? '360360';
  process.stdout.write(`${worker.id} says that ${number} is the product of `);
  try {
    for await (const part of session.stream(number, { to: worker.id })) process.stdout.write(part.text);
    console.log();
  } catch (error) {
    // What the worker throws arrives here, with its code and sentence.
    console.log(`\n${String(error)}`);
    process.exitCode = 1;
  }
}
await session.close();
