import skep from './skep.cjs';

export const skills = skep.skills;
export const SkepError = skep.SkepError;
export default skep;
