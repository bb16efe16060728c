/** A skill document as lists show it. */
export interface Skill {
  name: string;
  title: string;
  description: string;
  tags: string[];
}

/** A skill document with its markdown. */
export interface SkillDocument extends Skill {
  content: string;
}

/** Reads skill documents; to write them use the `skep` command or the tools of the supervisor. */
export declare const skills: {
  /** Every enabled document that this agent may read, or those with a tag. */
  list(tag?: string): Promise<Skill[]>;
  /** One document. Rejects with a SkepError of status 404 when there is none. */
  read(name: string): Promise<SkillDocument>;
};

/** Why the supervisor refused; `status` is that of HTTP. */
export declare class SkepError extends Error {
  readonly status: number;
}

declare const skep: { skills: typeof skills; SkepError: typeof SkepError };
export default skep;
