"""Messages with a history, or with more to say than where they are: kept one by one."""
