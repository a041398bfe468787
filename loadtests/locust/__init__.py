"""Load tests with Locust: subscribers by the thousand, and a verdict on what they got."""
