import { exchange, share, useAll } from './page.js';

/** Calls a function of the page with the arguments in the request. */
export default {
  async fetch(request) {
    const { name, url, options } = await request.json();
    const call = { exchange, share, useAll }[name];
    const outcome = await call(url, options).then(
      (value) => ({ value }),
      ({ code, message }) => ({ code, message }),
    );
    return Response.json(outcome);
  },
};
