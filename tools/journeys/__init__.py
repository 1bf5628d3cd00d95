"""How far a value travels through the package: the files that a reader opens who follows one parameter from a command to its last use.

The method, by which two versions of the code can be compared:

- The value is a parameter of a function. It keeps its identity under another name, as an attribute, inside an expression or a collection,
  in a closure, in a class that is constructed with it, and behind an accessor.
- An accessor is a function that is one `return` statement, such as `paths.inventory(stack)`. The reader sees it as a name.
- A function of the package that is handed the value is entered: its body is followed in the order of evaluation, the first time only.
  Its result is another value and is not followed.
- A stop is a visit to a file: functions of one file that are entered in succession are one stop.
- A return is a stop in a file that had a stop before. Stops = files + returns.
- The constructor of an error is not entered.
- A climb is a stop in a higher layer than the stop before, by the layers of import-linter in pyproject.toml.

A function that is chosen while the program runs (from a table, by a callback) cannot be followed. `--stops` lists these calls.
"""
