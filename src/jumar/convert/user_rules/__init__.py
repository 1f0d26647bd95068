"""Rules of users (`-r FILE`): the vendor's JSON form, and Jumar's own form in TOML or JSON."""
