-- Chinese, Japanese and Korean is searched character by character: the program writes what is searched anew.
DELETE FROM skill_text;
