// What is remembered: the columns of each kind, those that tell one entry from another, and those that are searched.

export type Kind = "fact" | "contact" | "project" | "conversation";

export type Shape = {
  /** How answers call several of them. */
  plural: string;
  columns: string[];
  /** Storing an entry with the same ones changes it. None: each is a new one. */
  key: string[];
  /** What lists and searches may be narrowed by. */
  filters: string[];
};

export const KINDS: Record<Kind, Shape> = {
  fact: { plural: "facts", columns: ["fact", "category", "source", "agent_id"], key: ["fact", "category"], filters: ["category"] },
  contact: { plural: "contacts", columns: ["name", "email", "phone", "company", "role", "notes"], key: ["name"], filters: [] },
  project: { plural: "projects", columns: ["name", "status", "description", "deadline", "notes"], key: ["name"], filters: ["status"] },
  conversation: { plural: "conversations", columns: ["topic", "content", "participants", "happened_at"], key: [], filters: [] },
};
