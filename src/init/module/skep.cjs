'use strict';
// Skill documents, read over the agent's own socket. Nothing here changes anything.

const http = require('node:http');

/** Why the supervisor refused; `status` is that of HTTP. */
class SkepError extends Error {
  constructor(message, status) {
    super(message);
    this.name = 'SkepError';
    this.status = status;
  }
}

function request(path) {
  const socketPath = process.env.SKEP_API || '/skep/api.sock';
  return new Promise((resolve, reject) => {
    const fail = (error) =>
      reject(new Error(`the supervisor does not answer at ${socketPath}: ${error.message}`, { cause: error }));
    const headers = { Host: 'skep', Accept: 'application/json' };
    const asked = http.request({ socketPath, path, headers, agent: false }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (piece) => (text += piece));
      answer.on('error', fail);
      answer.on('end', () => resolve({ status: answer.statusCode, text }));
    });
    asked.on('error', fail);
    asked.end();
  });
}

async function get(path) {
  const { status, text } = await request(path);
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    throw new SkepError(`the supervisor's answer (${status}) is not JSON`, status);
  }
  if (status !== 200) throw new SkepError(body.detail ?? `the supervisor answered ${status}`, status);
  return body;
}

const skills = Object.freeze({
  async list(tag) {
    const all = [];
    let cursor = null;
    do {
      const query = new URLSearchParams({ limit: '1000' });
      if (tag !== undefined && tag !== null) query.set('tag', String(tag));
      if (cursor) query.set('cursor', cursor);
      const page = await get(`/v1/documents?${query}`);
      for (const { name, title, description, tags } of page.items) all.push({ name, title, description, tags });
      cursor = page.next;
    } while (cursor);
    return all;
  },

  async read(name) {
    if (typeof name !== 'string' || name === '') throw new TypeError('skills.read needs the name of a skill');
    const document = await get(`/v1/documents/${encodeURIComponent(name)}`);
    const { title, description, content, tags } = document;
    return { name: document.name, title, description, content, tags };
  },
});

module.exports = Object.freeze({ skills, SkepError });
